package peft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/nn"
)

// ConfigName is the file that says what an adapter is; its tensors are in FileName, or in MLXName.
const (
	ConfigName = "adapter_config.json"
	FileName   = "adapter_model.safetensors"
	MLXName    = "adapters.safetensors"
)

const maxConfig = 16 << 20 // bytes

// config is what adapter_config.json may have that changes results.
type config struct {
	Type          string          `json:"peft_type"`
	Base          string          `json:"base_model_name_or_path"`
	Rank          int             `json:"r"`
	Alpha         float64         `json:"lora_alpha"`
	Dropout       float64         `json:"lora_dropout"`
	Bias          string          `json:"bias"`
	RSLoRA        bool            `json:"use_rslora"`
	DoRA          bool            `json:"use_dora"`
	FanInFanOut   bool            `json:"fan_in_fan_out"`
	Ranks         map[string]any  `json:"rank_pattern"`
	Alphas        map[string]any  `json:"alpha_pattern"`
	Save          []string        `json:"modules_to_save"`
	Parameters    []string        `json:"target_parameters"`
	Tokens        json.RawMessage `json:"trainable_token_indices"`
	FineTune      string          `json:"fine_tune_type"` // mlx-lm's, from here on
	MLXParameters *struct {
		Rank    int     `json:"rank"`
		Scale   float64 `json:"scale"`
		Dropout float64 `json:"dropout"`
	} `json:"lora_parameters"`
}

// readConfig reads the configuration of the adapter in a folder, and says whether it is mlx-lm's.
func (a *Adapter) readConfig(folder string) (mlx bool, err error) {
	path := filepath.Join(folder, ConfigName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; want the folder of an adapter, or a checkpoint of a run that trains one, such as DIR/checkpoints/step-00000020", err)
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("more than %d MiB", maxConfig>>20)
	}
	var c config
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil {
		mlx = c.MLXParameters != nil || c.FineTune != ""
		if mlx {
			err = a.fromMLX(c)
		} else {
			err = a.fromPEFT(c)
		}
	}
	if err != nil {
		return mlx, fmt.Errorf("%s: %w", path, err)
	}
	return mlx, nil
}

func (a *Adapter) fromMLX(c config) error {
	if c.FineTune != "" && c.FineTune != "lora" || c.MLXParameters == nil {
		return fmt.Errorf("fine_tune_type %q, want lora with lora_parameters", c.FineTune)
	}
	p := c.MLXParameters
	a.LoRA.Rank, a.LoRA.Alpha, a.LoRA.Dropout = p.Rank, p.Scale*float64(p.Rank), p.Dropout
	return a.sound()
}

func (a *Adapter) fromPEFT(c config) error {
	for _, x := range []struct {
		wrong bool
		what  string
	}{
		{c.Type != "LORA", fmt.Sprintf("peft_type is %q, want LORA", c.Type)},
		{c.DoRA, "use_dora is true, want plain LoRA"},
		{c.FanInFanOut, "fan_in_fan_out is true, want matrices [out,in]"},
		{c.Bias != "" && c.Bias != "none", fmt.Sprintf("bias is %q, want none: only adapters are read", c.Bias)},
		{len(c.Ranks)+len(c.Alphas) > 0, "rank_pattern or alpha_pattern is given, want one rank and one alpha"},
		{len(c.Save) > 0, fmt.Sprintf("modules_to_save is %q, want none: only adapters are read", c.Save)},
		{len(c.Parameters) > 0, fmt.Sprintf("target_parameters is %q, want adapters of linear layers, one for each expert", c.Parameters)},
		{len(c.Tokens) > 0 && string(c.Tokens) != "null", "trainable_token_indices is given, want none: only adapters are read"},
	} {
		if x.wrong {
			return errors.New(x.what)
		}
	}
	a.Base, a.LoRA.Rank, a.LoRA.Alpha, a.LoRA.Dropout = c.Base, c.Rank, c.Alpha, c.Dropout
	if c.RSLoRA { // whose scale is alpha/√rank
		a.LoRA.Alpha *= math.Sqrt(float64(c.Rank))
	}
	return a.sound()
}

// sound checks what the configuration says; the targets follow from the tensors.
func (a *Adapter) sound() error {
	l := a.LoRA
	l.Targets = []string{"any"}
	if l.Alpha == 0 {
		return errors.New("the adapter is multiplied by 0, want lora_alpha or scale above 0")
	}
	return l.Check()
}

// Describe returns what a folder has beside the tensors of an adapter of these matrices, by name: adapter_config.json.
func Describe(a Adapter, adapters []nn.Adapter) (map[string][]byte, error) {
	alpha := a.LoRA.Alpha
	if alpha == 0 {
		alpha = float64(a.LoRA.Rank)
	}
	text, err := json.MarshalIndent(map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": a.Base, "r": a.LoRA.Rank, "lora_alpha": alpha,
		"lora_dropout": a.LoRA.Dropout, "target_modules": modules(a, adapters), "bias": "none", "inference_mode": true,
	}, "", "  ")
	return map[string][]byte{ConfigName: append(text, '\n')}, err
}

// modules returns the names of the matrices, with those of experts, sorted.
func modules(a Adapter, adapters []nn.Adapter) (names []string) {
	if !slices.ContainsFunc(a.LoRA.Targets, func(t string) bool { return strings.ContainsAny(t, `*?[\`) }) {
		return slices.Sorted(slices.Values(a.LoRA.Targets)) // which PEFT understands as the ends of names, too
	}
	for _, m := range adapters {
		for e := range max(m.Experts, 1) {
			names = append(names, strings.Replace(m.Name, "*", strconv.Itoa(e), 1))
		}
	}
	slices.Sort(names)
	return names
}
