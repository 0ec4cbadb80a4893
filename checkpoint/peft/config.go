package peft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// ConfigName is the file describing an adapter; its tensors are in FileName, or in MLXName for mlx-lm.
const (
	ConfigName = "adapter_config.json"
	FileName   = "adapter_model.safetensors"
	MLXName    = "adapters.safetensors"
)

const maxConfig = 16 << 20 // bytes

// config holds the settings of adapter_config.json that affect results.
type config struct {
	Type       string            `json:"peft_type"`
	Base       string            `json:"base_model_name_or_path"`
	Rank       int               `json:"r"`
	Alpha      float64           `json:"lora_alpha"`
	Dropout    float64           `json:"lora_dropout"`
	Bias       string            `json:"bias"`
	RSLoRA     bool              `json:"use_rslora"`
	Init       any               `json:"init_lora_weights"`
	Ranks      patterns[int]     `json:"rank_pattern"`
	Alphas     patterns[float64] `json:"alpha_pattern"`
	Save       []string          `json:"modules_to_save"`
	Parameters []string          `json:"target_parameters"`
	Tokens     any               `json:"trainable_token_indices"`
	Tie        bool              `json:"ensure_weight_tying"`

	FineTune string `json:"fine_tune_type"` // the following are mlx-lm's
	MLX      *struct {
		Rank    int     `json:"rank"`
		Scale   float64 `json:"scale"`
		Dropout float64 `json:"dropout"`
	} `json:"lora_parameters"`
}

// harmless returns the settings of PEFT 0.21's LoraConfig that do not affect the results of a saved adapter. They
// describe its origin, list its matrices, which the tensors do as well, or are options of methods enabled by other
// settings.
func harmless() []string {
	return []string{
		"auto_mapping", "inference_mode", "peft_version", "revision", "task_type", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern",
		"megatron_core", "qalora_group_size", "loftq_config", "eva_config", "corda_config", "lora_ga_config", "runtime_config",
	}
}

// refused returns the settings of LoraConfig that modify the base weights or the application of the adapter, with
// the supported alternatives.
func refused() map[string]string {
	return map[string]string{
		"use_dora": "plain LoRA", "use_qalora": "plain LoRA", "use_bdlora": "plain LoRA", "arrow_config": "one adapter", "kasa_config": "plain LoRA",
		"velora_config": "plain LoRA", "monteclora_config": "plain LoRA", "lora_bias": "adapters without biases", "fan_in_fan_out": "matrices [out,in]",
		"layer_replication": "the layers of the model", "megatron_config": "an adapter of transformers' layers", "alora_invocation_tokens": "an adapter of every token",
	}
}

// readConfig reads the configuration of the adapter in a folder, and reports whether it is mlx-lm's.
func (a *Adapter) readConfig(folder string) (mlx bool, err error) {
	path := filepath.Join(folder, ConfigName)
	text, err := infile.Read(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; want the folder of an adapter, or a checkpoint of a run that trains one, such as DIR/checkpoints/step-00000020", err)
	}
	if err != nil {
		return false, err
	}
	var all map[string]json.RawMessage
	c := &a.config
	err = strictjson.Unmarshal(text, c)
	if err == nil {
		err = strictjson.Unmarshal(text, &all)
	}
	if err == nil {
		mlx = c.MLX != nil || c.FineTune != ""
		if mlx {
			err = a.fromMLX()
		} else {
			err = a.fromPEFT(all)
		}
	}
	if err != nil {
		return mlx, fmt.Errorf("%s: %w", path, err)
	}
	return mlx, nil
}

func (a *Adapter) fromMLX() error {
	c := a.config
	if c.FineTune != "" && c.FineTune != "lora" || c.MLX == nil {
		return fmt.Errorf("fine_tune_type %s, want lora with lora_parameters", quoted.Name(c.FineTune))
	}
	a.LoRA.Rank, a.LoRA.Alpha, a.LoRA.Dropout = c.MLX.Rank, c.MLX.Scale*float64(c.MLX.Rank), c.MLX.Dropout
	return a.sound()
}

func (a *Adapter) fromPEFT(all map[string]json.RawMessage) (err error) {
	c := &a.config
	if c.Type != "LORA" {
		return fmt.Errorf("peft_type is %s, want LORA", quoted.Name(c.Type))
	}
	if c.Bias != "" && c.Bias != "none" {
		return fmt.Errorf("bias is %s, want none: gomoe reads no trained biases", quoted.Name(c.Bias))
	}
	switch first, _ := c.Init.(string); first {
	case "", "gaussian", "orthogonal", "eva", "lora_ga": // these describe the start of training, and do not affect the base weights of a saved adapter
	default:
		return fmt.Errorf("init_lora_weights is %s, with which PEFT changes the base weights; want an adapter of the model's own weights, which PEFT saves with path_initial_model_for_weight_conversion", quoted.Name(first))
	}
	known := []string{"peft_type", "base_model_name_or_path", "r", "lora_alpha", "lora_dropout", "bias", "use_rslora", "init_lora_weights", "rank_pattern", "alpha_pattern", "modules_to_save", "target_parameters", "trainable_token_indices", "ensure_weight_tying"}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := string(bytes.TrimSpace(all[key]))
		if slices.Contains(known, key) || slices.Contains(harmless(), key) || slices.Contains([]string{"null", "false", "[]", "{}", `""`}, value) {
			continue
		}
		if want, ok := refused()[key]; ok {
			return fmt.Errorf("%s is %s, want %s", key, quoted.JSON(all[key]), want)
		}
		return fmt.Errorf("setting %s is %s, which gomoe does not know and which may change results; take it out of the file if it does not", quoted.Plain(key), quoted.JSON(all[key]))
	}
	if err = c.Ranks.compile("rank_pattern"); err == nil {
		err = c.Alphas.compile("alpha_pattern")
	}
	if err != nil {
		return err
	}
	const usual = 8 // default of LoraConfig
	if _, ok := all["r"]; !ok {
		c.Rank = usual
	}
	if _, ok := all["lora_alpha"]; !ok {
		c.Alpha = usual
	}
	a.Base, a.LoRA.Rank, a.LoRA.Alpha, a.LoRA.Dropout = c.Base, c.Rank, c.Alpha, c.Dropout
	if c.RSLoRA { // the scale is alpha/√rank
		a.LoRA.Alpha *= math.Sqrt(float64(c.Rank))
	}
	return a.sound()
}

// patterns holds the values of rank_pattern or alpha_pattern in file order. The keys are regular expressions
// matching the end of a matrix's name.
type patterns[T any] struct {
	strictjson.Ordered[T]
	match []*regexp.Regexp
}

func (p *patterns[T]) compile(setting string) error {
	for _, key := range p.Names {
		x, err := regexp.Compile(`^(?:.*\.)?(?:` + key + `)$`)
		if err != nil {
			return fmt.Errorf("%s: %s is no regular expression that gomoe reads: %w", setting, quoted.Text(key), quoted.Cause(err))
		}
		p.match = append(p.match, x)
	}
	return nil
}

// of returns the value of the first pattern matching the end of a name, as PEFT does, or other.
func (p *patterns[T]) of(name string, other T) T {
	for i, x := range p.match {
		if x.MatchString(name) {
			return p.Values[p.Names[i]]
		}
	}
	return other
}

// scaled returns the rank of a matrix's adapter and the factor applied to its product.
func (c *config) scaled(name string) (rank int, scale float64, err error) {
	if c.MLX != nil {
		return c.MLX.Rank, c.MLX.Scale, nil
	}
	rank, alpha := c.Ranks.of(name, c.Rank), c.Alphas.of(name, c.Alpha)
	if rank < 1 || !(alpha > 0) || math.IsInf(alpha, 0) {
		err = fmt.Errorf("%s has rank %d and alpha %s, want both above 0", name, rank, quoted.Value(alpha))
	}
	if c.RSLoRA {
		return rank, alpha / math.Sqrt(float64(rank)), err
	}
	return rank, alpha / float64(rank), err
}

// sound validates the configuration; the targets follow from the tensors.
func (a *Adapter) sound() error {
	l := a.LoRA
	l.Targets = []string{"any"}
	if l.Alpha == 0 {
		return errors.New("the adapter is multiplied by 0, want lora_alpha or scale above 0")
	}
	return l.Check()
}

// tokens returns the rows of an embedding table listed in trainable_token_indices.
func (c *config) tokens(module string) (ids []int) {
	list, ok := c.Tokens.([]any)
	if by, is := c.Tokens.(map[string]any); is {
		for name, v := range by {
			if module == name || strings.HasSuffix(module, "."+name) {
				list, ok = v.([]any)
			}
		}
	}
	for _, v := range list {
		x, number := v.(float64)
		if !number || x != math.Trunc(x) || x < 0 {
			ok = false
		}
		ids = append(ids, int(x))
	}
	if !ok {
		return nil
	}
	return ids
}
