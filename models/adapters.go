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
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
)

// Adapters are adapters that a model was trained with, and which it is used with: nn.Options has LoRA, and their parameters
// are filled with Fill. A nil *Adapters is none.
type Adapters struct {
	LoRA   nn.LoRA
	Arrays map[string]array.Array // by the parameters' names, with rows of heads in the order of the model's files
}

// OpenAdapters reads the adapters of a model from a folder that peft.Open opens. It is an error if they are of another model:
// if one of them has no matrix, or another shape.
func OpenAdapters(folder string, m *Model, c *checkpoint.Checkpoint) (a *Adapters, err error) {
	if folder, err = checkpoint.Snapshot(folder); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	from, err := peft.Open(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	list, err := AdaptersOf(m, c, from.LoRA)
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", folder, err)
	}
	arrays, err := from.Arrays(list)
	if err != nil {
		return nil, err
	}
	return &Adapters{from.LoRA, Reordered(m, c, arrays, true)}, nil
}

// AdaptersOf returns the matrices of a model that have adapters. It is an error if one of the targets is no matrix.
func AdaptersOf(m *Model, c *checkpoint.Checkpoint, l nn.LoRA) (list []nn.Adapter, err error) {
	_, err = graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: DType(c), Stored: Stored(c), LoRA: &l})
		out := m.Forward(s, t.Input("tokens", graph.I32, 1, 1), &nn.Step{})
		list = s.Adapters()
		return []*graph.Value{out}
	})
	if err != nil {
		return nil, err
	}
	for _, t := range l.Targets {
		if !slices.ContainsFunc(list, func(a nn.Adapter) bool { return nn.Matches(t, a.Name) }) {
			return list, fmt.Errorf("%s: target %q is no matrix that can have an adapter; %s has, for instance, q_proj and experts.*.up_proj", c.Path, t, m.Family)
		}
	}
	return list, nil
}

// Reordered returns the parameters of adapters with the rows of heads in the order of Hugging Face's files instead of that of
// a GGUF file c, or with back the other way round. In most models both have the same order.
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

// Options returns what a model is traced with for its LoRA; nil without adapters.
func (a *Adapters) Options() *nn.LoRA {
	if a == nil {
		return nil
	}
	return &a.LoRA
}

// Base returns the parameters without those of adapters: what the model's files have.
func (a *Adapters) Base(params []nn.Param) []nn.Param {
	return slices.DeleteFunc(slices.Clone(params), func(p nn.Param) bool { return a != nil && a.Arrays[p.Name].Type.Shape != nil })
}

// Find returns where a parameter lies: in the adapters, or else in the checkpoint.
func (a *Adapters) Find(c *checkpoint.Checkpoint, p nn.Param) (*Weight, error) {
	if a == nil {
		return Find(c, p)
	}
	x, ok := a.Arrays[p.Name]
	if !ok {
		return Find(c, p)
	}
	return &Weight{Type: x.Type, fill: runtime.ReadAt(bytes.NewReader(x.Bytes()), 0)}, nil
}
