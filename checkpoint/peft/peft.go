package peft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
)

// Adapter is an adapter of a model.
type Adapter struct {
	// LoRA says what the adapters are. Open sets its Targets to the whole names of the matrices.
	LoRA nn.LoRA
	Base string // what the folder calls the model

	path  string // of the tensors
	close func() error
	found map[string]tensor.Tensor // by the names of parameters, with the numbers of experts, or a star if all are in one
	mlx   bool
}

// Open opens the adapter in a folder. The caller must call Close. It is an error if something in the folder changes results
// and is not known.
func Open(folder string) (*Adapter, error) {
	a := &Adapter{found: map[string]tensor.Tensor{}}
	if err := a.open(folder); err != nil {
		return nil, errors.Join(fmt.Errorf("peft: %w", err), a.Close())
	}
	return a, nil
}

// Close ends the use of the files.
func (a *Adapter) Close() error {
	if a.close == nil {
		return nil
	}
	return a.close()
}

func (a *Adapter) open(folder string) (err error) {
	if a.mlx, err = a.readConfig(folder); err != nil {
		return err
	}
	tensors, err := a.tensors(folder)
	if err != nil {
		return err
	}
	path := a.path
	number := regexp.MustCompile(`\.experts\.\d+\.`)
	for _, t := range tensors {
		name, ok := plainName(t.Name, a.mlx)
		if !ok || t.Type.DType != graph.F32 && t.Type.DType != graph.BF16 && t.Type.DType != graph.F16 {
			return fmt.Errorf("%s: tensor %q of %s, want an adapter's %s or %s of floats", path, t.Name, t.Stored, nn.LoRAA, nn.LoRAB)
		}
		if _, twice := a.found[name]; twice {
			return fmt.Errorf("%s: tensor %q is there twice", path, t.Name)
		}
		a.found[name] = t
		module := strings.TrimSuffix(strings.TrimSuffix(name, "."+nn.LoRAA), "."+nn.LoRAB)
		if module = number.ReplaceAllString(module, ".experts.*."); !slices.Contains(a.LoRA.Targets, module) {
			a.LoRA.Targets = append(a.LoRA.Targets, module)
		}
	}
	if len(a.found) == 0 {
		return fmt.Errorf("%s: there are no tensors", path)
	}
	slices.Sort(a.LoRA.Targets)
	return nil
}

// tensors opens what a folder has: the file of an adapter, or a checkpoint of a run that trains one.
func (a *Adapter) tensors(folder string) ([]tensor.Tensor, error) {
	name := FileName
	if a.mlx {
		name = MLXName
	}
	a.path = filepath.Join(folder, name)
	if _, err := os.Lstat(a.path); errors.Is(err, fs.ErrNotExist) {
		if set, wrong := parts.Open(folder); wrong == nil {
			a.path, a.close = folder, set.Close
			return set.Tensors()
		} else if !errors.Is(wrong, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", folder, wrong)
		}
	}
	f, err := safetensors.Open(a.path)
	if err != nil {
		return nil, err
	}
	a.close = f.Close
	return f.Tensors, nil
}

const peftPrefix = "base_model.model."

// TensorName returns the name in files of a parameter of an adapter.
func TensorName(param string) string { return peftPrefix + param }

// plainName returns the name of a parameter, with the number of an expert or a star for all, of a tensor.
func plainName(name string, mlx bool) (string, bool) {
	if !mlx {
		rest, ok := strings.CutPrefix(name, peftPrefix)
		return rest, ok && (strings.HasSuffix(rest, "."+nn.LoRAA) || strings.HasSuffix(rest, "."+nn.LoRAB))
	}
	module, a := strings.CutSuffix(name, ".lora_a")
	module, b := strings.CutSuffix(module, ".lora_b")
	module = plainMLX(module)
	if a {
		return module + "." + nn.LoRAA, !b
	}
	return module + "." + nn.LoRAB, b
}

// Arrays returns the parameters of the adapters of a model by name, as f32. It is an error if a tensor is missing, has
// another shape, or belongs to no adapter.
func (a *Adapter) Arrays(adapters []nn.Adapter) (map[string]array.Array, error) {
	all, used := map[string]array.Array{}, 0
	for _, m := range adapters {
		for _, part := range []string{nn.LoRAA, nn.LoRAB} {
			x, n, err := a.array(m, part)
			if err != nil {
				return nil, fmt.Errorf("peft: %s: %w", a.path, err)
			}
			all[m.Name+"."+part] = x
			used += n
		}
	}
	if used < len(a.found) {
		return nil, fmt.Errorf("peft: %s: %d of %d tensors belong to no matrix of the model", a.path, len(a.found)-used, len(a.found))
	}
	return all, nil
}

// shapeOf returns the shape of a part of an adapter, without the dimension of experts.
func shapeOf(m nn.Adapter, part string, rank int) []int {
	if part == nn.LoRAA {
		return []int{rank, m.In}
	}
	return []int{m.Out, rank}
}

// array returns a parameter, and of how many tensors it is.
func (a *Adapter) array(m nn.Adapter, part string) (array.Array, int, error) {
	name, shape := m.Name+"."+part, shapeOf(m, part, a.LoRA.Rank)
	get := func(name string, shapes ...[]int) (array.Array, error) {
		t, ok := a.found[name]
		if !ok {
			return array.Array{}, fmt.Errorf("there is no tensor for %s", name)
		}
		if !slices.ContainsFunc(shapes, func(s []int) bool { return slices.Equal(s, t.Type.Shape) }) {
			return array.Array{}, fmt.Errorf("tensor %q has shape %v, want %v", t.Name, t.Type.Shape, shapes[0])
		}
		x, err := t.Array()
		return x.As(graph.F32), err
	}
	if m.Experts == 0 {
		if !a.mlx {
			x, err := get(name, shape)
			return x, 1, err
		}
		x, err := get(name, []int{shape[1], shape[0]}) // which mlx-lm has the other way round
		if err != nil {
			return x, 0, err
		}
		return x.Transposed(), 1, nil
	}
	stack := append([]int{m.Experts}, shape...)
	if a.mlx {
		x, err := get(name, stack, []int{m.Experts * shape[0], shape[1]})
		if err != nil {
			return x, 0, err
		}
		return x.Reshape(stack...), 1, nil
	}
	y := array.New(graph.T(graph.F32, stack...))
	for e := range m.Experts {
		x, err := get(strings.Replace(name, "*", strconv.Itoa(e), 1), shape)
		if err != nil {
			return y, 0, err
		}
		copy(y.Rows(e, e+1).Bytes(), x.Bytes())
	}
	return y, m.Experts, nil
}

// Write writes an adapter to a folder, as PEFT has them. arrays are the parameters of the adapters by name, f32. The
// configuration comes last, so that a folder that has one is complete.
func Write(folder string, a Adapter, adapters []nn.Adapter, arrays map[string]array.Array) error {
	if err := write(folder, a, adapters, arrays); err != nil {
		return fmt.Errorf("peft: %w", err)
	}
	return nil
}

func write(folder string, a Adapter, adapters []nn.Adapter, arrays map[string]array.Array) error {
	tensors, err := sources(a, adapters, arrays, func(m nn.Adapter, part string, x array.Array) (list []tensor.Source) {
		name := TensorName(m.Name + "." + part)
		if m.Experts == 0 {
			return []tensor.Source{tensor.Of(name, x)}
		}
		for e := range m.Experts {
			one := x.Rows(e, e+1).Reshape(x.Type.Shape[1:]...)
			list = append(list, tensor.Of(strings.Replace(name, "*", strconv.Itoa(e), 1), one))
		}
		return list
	})
	if err != nil {
		return err
	}
	files, err := Describe(a, adapters)
	if err != nil {
		return err
	}
	return writeFiles(folder, FileName, tensors, files)
}

// sources returns the tensors that `of` makes of each part of each matrix's adapter.
func sources(a Adapter, adapters []nn.Adapter, arrays map[string]array.Array, of func(m nn.Adapter, part string, x array.Array) []tensor.Source) (all []tensor.Source, err error) {
	if err := a.LoRA.Check(); err != nil {
		return nil, err
	}
	for _, m := range adapters {
		for _, part := range []string{nn.LoRAA, nn.LoRAB} {
			name, shape := m.Name+"."+part, shapeOf(m, part, a.LoRA.Rank)
			if m.Experts > 0 {
				shape = append([]int{m.Experts}, shape...)
			}
			x, ok := arrays[name]
			if want := graph.T(graph.F32, shape...); !ok || !x.Type.Equal(want) {
				return nil, fmt.Errorf("%s is %s, want %s", name, x.Type, want)
			}
			all = append(all, of(m, part, x)...)
		}
	}
	return all, nil
}

// writeFiles writes tensors and then the configuration to a folder, so that one that has a configuration is complete.
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
