package peft

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
)

// Write writes an adapter to a folder in PEFT's format for transformers 5: experts are adapted as parameters of all
// experts. arrays are the parameters of the adapters by name, f32. The configuration is written last, so a folder
// with a configuration is complete.
func Write(folder string, a Adapter, adapters []nn.Adapter, arrays map[string]array.Array) error {
	if err := write(folder, a, adapters, arrays); err != nil {
		return fmt.Errorf("peft: %w", err)
	}
	return nil
}

func write(folder string, a Adapter, adapters []nn.Adapter, arrays map[string]array.Array) error {
	if err := checked(a, adapters, arrays); err != nil {
		return err
	}
	var all []tensor.Source
	l := a.layout(adapters)
	for _, m := range adapters {
		if m.Experts == 0 {
			for _, part := range []string{nn.LoRAA, nn.LoRAB} {
				all = append(all, tensor.Of(TensorName(a.theirs(m.Name)+"."+part), arrays[m.Name+"."+part]))
			}
		}
	}
	for _, parameter := range slices.Sorted(maps.Keys(l.fused)) {
		x, y := fuse(l.factors(parameter, arrays), a.Layout.Interleaved)
		all = append(all, tensor.Of(TensorName(l.wrapper(parameter)+"."+nn.LoRAA), x), tensor.Of(TensorName(l.wrapper(parameter)+"."+nn.LoRAB), y))
	}
	files, err := Describe(a, adapters)
	if err != nil {
		return err
	}
	return writeFiles(folder, FileName, all, files)
}

// layout describes how PEFT stores the adapters of a model.
type layout struct {
	modules    []string            // adapted as linear layers
	parameters []string            // adapted as parameters
	fused      map[string][]halfOf // fused parameters of experts, and the matrices in them
}

// halfOf is a matrix of experts and its location in the fused parameter.
type halfOf struct {
	matrix string
	half
}

// theirs returns the name of a matrix or a module in transformers 5.
func (a Adapter) theirs(name string) string {
	if a.Layout.Block == "" {
		return name
	}
	return strings.Replace(name, "."+a.Layout.Block+".", ".mlp.", 1)
}

// layout returns how PEFT stores the adapters. In families with experts, PEFT takes a target ending with the name
// of an expert's matrix for that matrix of all experts, and ignores linear layers of that name; so these are listed
// as parameters.
func (a Adapter) layout(adapters []nn.Adapter) layout {
	l := layout{fused: map[string][]halfOf{}}
	for _, m := range adapters {
		name := a.theirs(m.Name)
		module, matrix, experts := strings.Cut(name, ".experts.*.")
		_, end, _ := cutLast(name)
		switch {
		case experts:
			parameter, h := module+".experts."+gateUp, half{0, 2}
			if matrix == "up_proj" || matrix == "w3" {
				h.first = 1
			} else if matrix == down || matrix == "w2" {
				parameter, h = module+".experts."+down, half{0, 1}
			}
			l.fused[parameter] = append(l.fused[parameter], halfOf{m.Name, h})
		case a.Layout.Experts && slices.Contains([]string{"gate", "gate_proj", "up_proj", down}, end):
			l.parameters = append(l.parameters, name+".weight")
		default:
			l.modules = append(l.modules, name)
		}
	}
	l.parameters = append(l.parameters, slices.Collect(maps.Keys(l.fused))...)
	slices.Sort(l.parameters)
	slices.Sort(l.modules)
	return l
}

// wrapper returns the name of the module adapting a fused parameter: gate and up are wrapped first.
func (l layout) wrapper(parameter string) string {
	module, name, _ := cutLast(parameter)
	if _, both := l.fused[module+"."+down]; name == gateUp && both {
		return module + inner
	}
	return module
}

// factors returns the factors of the matrices in a fused parameter.
func (l layout) factors(parameter string, arrays map[string]array.Array) (all []factors) {
	for _, h := range l.fused[parameter] {
		all = append(all, factors{arrays[h.matrix+"."+nn.LoRAA], arrays[h.matrix+"."+nn.LoRAB], h.half})
	}
	return all
}

// Describe returns the files of an adapter's folder other than tensors, by name: adapter_config.json.
func Describe(a Adapter, adapters []nn.Adapter) (map[string][]byte, error) {
	alpha := a.LoRA.Alpha
	if alpha == 0 {
		alpha = float64(a.LoRA.Rank)
	}
	l := a.layout(adapters)
	values := map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": a.Base, "r": a.LoRA.Rank, "lora_alpha": alpha,
		"lora_dropout": a.LoRA.Dropout, "target_modules": l.modules, "bias": "none", "inference_mode": true,
	}
	if len(l.modules) == 0 {
		values["target_modules"] = []string{}
	}
	if len(l.parameters) > 0 {
		values["target_parameters"] = l.parameters
		values["lora_dropout"] = 0.0 // PEFT has no dropout for parameters; a saved adapter is used without it
	}
	ranks, alphas := map[string]int{}, map[string]float64{}
	for parameter, of := range l.fused {
		if len(of) > 1 {
			key := regexp.QuoteMeta(parameter)
			ranks[key], alphas[key] = len(of)*a.LoRA.Rank, float64(len(of))*alpha
		}
	}
	if len(ranks) > 0 {
		values["rank_pattern"], values["alpha_pattern"] = ranks, alphas
	}
	text, err := json.MarshalIndent(values, "", "  ")
	return map[string][]byte{ConfigName: append(text, '\n')}, err
}

// checked returns an error if an array is missing or has another type than the adapters require.
func checked(a Adapter, adapters []nn.Adapter, arrays map[string]array.Array) error {
	if err := a.LoRA.Check(); err != nil {
		return err
	}
	for _, m := range adapters {
		for _, part := range []string{nn.LoRAA, nn.LoRAB} {
			name, shape := m.Name+"."+part, shapeOf(m, part, a.LoRA.Rank)
			if m.Experts > 0 {
				shape = append([]int{m.Experts}, shape...)
			}
			x, ok := arrays[name]
			if want := graph.T(graph.F32, shape...); !ok || !x.Type.Equal(want) {
				return fmt.Errorf("%s is %s, want %s", name, x.Type, want)
			}
		}
	}
	return nil
}

// writeFiles writes tensors and then the configuration to a folder, so that a folder with a configuration is
// complete.
func writeFiles(folder, name string, tensors []tensor.Source, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(folder, ConfigName)); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := safetensors.Write(filepath.Join(folder, name), map[string]string{"format": "pt"}, tensors); err != nil {
		return err
	}
	return whole.WriteAll(folder, files)
}
