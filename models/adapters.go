package models

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
)

// Adapters are trained adapters of a model. nn.Options takes LoRA, and Fill fills their parameters. A nil *Adapters
// means none.
type Adapters struct {
	LoRA   nn.LoRA                // without targets if no matrix has an adapter
	Arrays map[string]array.Array // by parameter name, with rows of heads in the order of the model's files
	// Changed holds replaced values of the model's parameters, in the element types of the model's files: embedding
	// tables with adapters, and PEFT's modules_to_save.
	Changed map[string]array.Array
}

// OpenAdapters reads the adapters of a model from a folder that peft.Open opens. It is an error if they belong to
// another model: if the matrix of an adapter is missing or has another shape.
func OpenAdapters(folder string, m *Model, c *checkpoint.Checkpoint) (a *Adapters, err error) {
	if folder, err = checkpoint.Snapshot(folder); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	from, err := peft.Open(folder, m.Family.Adapters)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	a = &Adapters{LoRA: from.LoRA}
	list, missing, err := adaptersOf(m, c, from.LoRA)
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", folder, err)
	}
	for _, name := range missing {
		if strings.Contains(name, "*") || !strings.HasPrefix(name, "model.") {
			return nil, fmt.Errorf("models: %s: %w", folder, noMatrix(m, c, name))
		}
		from.Add(name)
	}
	if a.LoRA = from.LoRA; len(a.LoRA.Targets) > 0 {
		if a.Arrays, err = from.Arrays(list); err != nil {
			return nil, err
		}
		a.Arrays = Reordered(m, c, a.Arrays, true)
	}
	if a.Changed, err = changedBy(from, m, c); err != nil {
		return nil, fmt.Errorf("models: %s: %w", folder, err)
	}
	return a, nil
}

// changedBy returns the model's parameters that an adapter replaces.
func changedBy(from *peft.Adapter, m *Model, c *checkpoint.Checkpoint) (map[string]array.Array, error) {
	names := from.Changed()
	if len(names) == 0 {
		return nil, nil
	}
	params, err := Params(m, c)
	if err != nil {
		return nil, err
	}
	all := map[string]array.Array{}
	for _, name := range names {
		i := slices.IndexFunc(params, func(p nn.Param) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("the adapter has values of %s, which is no parameter of %s", name, c.Path)
		}
		w, err := Find(c, params[i])
		if err != nil {
			return nil, err
		}
		if table := "model.embed_tokens.weight"; name == table && from.Apart(name) && !slices.ContainsFunc(params, func(p nn.Param) bool { return p.Name == headName }) {
			return nil, fmt.Errorf("the adapter changes %s as a table alone, and in %s it is the head, too; want an adapter without it, or new rows of single tokens", name, c.Path)
		}
		if d := w.Type.DType; !d.IsFloat() || d.IsBlock() || d.IsF8() || strings.Contains(name, "*") {
			return nil, fmt.Errorf("the adapter changes %s, which %s has as %s; want a matrix of f32, f16 or bf16", name, c.Path, w.Type)
		}
		width := 0
		if c.Config.GGUF() {
			width = m.Rotated(params[i])
		}
		x, err := from.Change(name, w.Type.Shape, func() (array.Array, error) {
			x, err := w.Array()
			if x = x.As(graph.F32); width > 0 {
				x = tensor.ToHalves(x, width)
			}
			return x, err
		})
		if err != nil {
			return nil, err
		}
		if width > 0 {
			x = tensor.ToNeighbours(x, width)
		}
		all[name] = x.As(w.Type.DType)
	}
	return all, nil
}

// AdaptersOf returns the matrices of a model selected for adapters. It is an error if a target matches no matrix.
func AdaptersOf(m *Model, c *checkpoint.Checkpoint, l nn.LoRA) (list []nn.Adapter, err error) {
	list, missing, err := adaptersOf(m, c, l)
	if err == nil && len(missing) > 0 {
		err = noMatrix(m, c, missing[0])
	}
	return list, err
}

func noMatrix(m *Model, c *checkpoint.Checkpoint, target string) error {
	all, _, err := adaptersOf(m, c, nn.LoRA{Rank: 1, Targets: []string{"*.layers.*", "lm_head"}})
	var ends []string
	for _, a := range all {
		end := a.Name[strings.LastIndexByte(a.Name, '.')+1:]
		if strings.HasSuffix(a.Name, ".*."+end) {
			end = "experts.*." + end
		}
		if !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	return errors.Join(fmt.Errorf("%s: target %s is no matrix that can have an adapter; %s has %s", c.Path, quoted.Name(target), m.Family.Name, strings.Join(ends, ", ")), err)
}

// adaptersOf returns the matrices of a model selected for adapters, and the targets that match no matrix.
func adaptersOf(m *Model, c *checkpoint.Checkpoint, l nn.LoRA) (list []nn.Adapter, missing []string, err error) {
	if len(l.Targets) == 0 {
		return nil, nil, nil
	}
	_, err = graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: DType(c), Stored: Stored(c), LoRA: &l})
		out := m.Forward(s, t.Input("tokens", graph.I32, 1, 1), &nn.Step{})
		list = s.Adapters()
		return []*graph.Value{out}
	})
	for _, t := range l.Targets {
		if !slices.ContainsFunc(list, func(a nn.Adapter) bool { return nn.Matches(t, a.Name) }) {
			missing = append(missing, t)
		}
	}
	return list, missing, err
}

// Reordered permutes the rows of heads in adapters' parameters from the order of a GGUF file c to the order of
// Hugging Face files, or back if back is set. In most models both orders are the same.
func Reordered(m *Model, c *checkpoint.Checkpoint, arrays map[string]array.Array, back bool) map[string]array.Array {
	if !c.Config.GGUF() {
		return arrays
	}
	out := map[string]array.Array{}
	for name, a := range arrays {
		width := m.Rotated(nn.Param{Name: name})
		if out[name] = a; width == 0 || !strings.HasSuffix(name, nn.LoRAB) {
			continue
		}
		if back {
			out[name] = tensor.ToNeighbours(a, width)
		} else {
			out[name] = tensor.ToHalves(a, width)
		}
	}
	return out
}

// Options returns the LoRA to trace a model with; nil without adapters.
func (a *Adapters) Options() *nn.LoRA {
	if a == nil || len(a.LoRA.Targets) == 0 {
		return nil
	}
	return &a.LoRA
}

// Base returns the parameters stored in the model's files, leaving out adapters.
func (a *Adapters) Base(params []nn.Param) []nn.Param {
	return slices.DeleteFunc(slices.Clone(params), func(p nn.Param) bool { return a != nil && a.Arrays[p.Name].Type.Shape != nil })
}

// Find locates a parameter in the adapters, or else in the checkpoint. Changed overrides the checkpoint.
func (a *Adapters) Find(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	if a == nil {
		return Find(c, p)
	}
	x, ok := a.Changed[p.Name]
	if !ok {
		if x, ok = a.Arrays[p.Name]; !ok {
			return Find(c, p)
		}
	}
	return &Weight{Type: x.Type, fill: runtime.ReadAt(bytes.NewReader(x.Bytes()), 0)}, nil
}
