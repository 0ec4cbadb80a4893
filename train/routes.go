package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// ChoicesPrefix and the name of a layer name an input of a step that replays, the experts of the layer's tokens, i32[..,K].
const ChoicesPrefix = "choices/"

// chosenPrefix and the name of a layer name a result of a step that records.
const chosenPrefix = "chosen/"

// Routes is a folder with the choices of a run: step-00000001.safetensors and so on, each with a tensor i32[..,K] for every
// layer of experts. A later run that replays them sends the same tokens to the same experts, on any mesh and whatever its
// routers would choose. With the same settings it has the bits of the run that has recorded.
type Routes struct {
	Path string
	// Experts is how many a layer has; Load then returns an error for others. 0 accepts all from 0 on.
	Experts int
}

// last is the last expert.
func (r Routes) last() string {
	if r.Experts == 0 {
		return "the last one"
	}
	return fmt.Sprint(r.Experts - 1)
}

// Recorded is called with the scope before the model of a step that records. Weights of experts are then computed as in a
// step that replays, so that the two have the same bits.
func Recorded(s *nn.Scope) {
	s.Choose(func(_ string, chosen *graph.Value) *graph.Value { return chosen })
}

// Replayed is called with the scope before the model of a step that replays: experts are inputs of the step. Their gradient
// is that of the weights, as it is where the router chooses.
func Replayed(s *nn.Scope) {
	s.Choose(func(layer string, chosen *graph.Value) *graph.Value {
		return s.Tracer().Input(ChoicesPrefix+layer, chosen.Type.DType, chosen.Type.Shape...)
	})
}

// Choices returns the results that Save writes, one for every layer of experts that has been applied.
func Choices(s *nn.Scope) []*graph.Value {
	var all []*graph.Value
	for _, r := range s.Routed() {
		c := r.Chosen
		if strings.HasPrefix(c.Name, ChoicesPrefix) { // an input, which has its name
			c = pr.Barrier(c)[0]
		}
		all = append(all, c.Named(chosenPrefix+r.Layer))
	}
	return all
}

func (r Routes) file(step int) string {
	return filepath.Join(r.Path, fmt.Sprintf("step-%08d.safetensors", step))
}

// Save writes the choices among the results of a step, and makes the folder. In a job of several processes all of them
// call it; the first one writes. A file that is there is replaced. It is complete or as it was.
func (r Routes) Save(ctx context.Context, step int, run *Run, results map[string]*runtime.Array) error {
	first, err := run.first()
	if err != nil {
		return err
	}
	var all []tensor.Source
	for _, name := range run.names { // in the same order in all processes
		if !strings.HasPrefix(name, chosenPrefix) || results[name] == nil {
			continue
		}
		a, err := run.Job.Get(ctx, results[name])
		if err != nil {
			return err
		}
		all = append(all, tensor.Of(strings.TrimPrefix(name, chosenPrefix), run.p.rows(a)))
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("train: routes: the step has no results named %s…, want those of Choices", chosenPrefix)
	case !first:
		return nil
	}
	if err := whole.Folder(r.Path); err != nil {
		return fmt.Errorf("train: routes: %w", err)
	}
	return safetensors.Write(r.file(step), nil, all)
}

// Has returns an error if the folder does not have the choices of all steps of a run, so that it does not end in the middle.
func (r Routes) Has(steps int) error {
	entries, err := os.ReadDir(r.Path)
	if err != nil {
		return fmt.Errorf("train: routes: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	for step := 1; step <= steps; step++ {
		if name := filepath.Base(r.file(step)); !there[name] {
			return fmt.Errorf("train: routes: %s has no %s, want the choices of all %d steps", r.Path, name, steps)
		}
	}
	return nil
}

// Load returns the choices of a step as inputs by name. The arrays are the caller's. It is an error if the folder does not
// have the step, or if an expert is out of range.
func (r Routes) Load(step int) (_ map[string]array.Array, err error) {
	f, err := safetensors.Open(r.file(step))
	if err != nil {
		return nil, fmt.Errorf("train: routes: step %d: %w", step, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all := map[string]array.Array{}
	for _, t := range f.Tensors {
		a, err := t.Array()
		if err != nil {
			return nil, fmt.Errorf("train: routes: %w", err)
		}
		if a.Type.DType != graph.I32 {
			return nil, fmt.Errorf("train: routes: %s: tensor %s is %s, want i32, the numbers of experts", f.Path(), quoted.Name(t.Name), a.Type)
		}
		own := array.New(a.Type)
		copy(own.Bytes(), a.Bytes())
		for i, e := range array.Data[int32](own) {
			if e < 0 || int(e) >= r.Experts && r.Experts > 0 {
				return nil, fmt.Errorf("train: routes: %s: step %d: tensor %s has expert %d at element %d, want 0 to %s", f.Path(), step, quoted.Name(t.Name), e, i, r.last())
			}
		}
		all[ChoicesPrefix+t.Name] = own
	}
	return all, nil
}
