package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// Setting is a model's setting. The settings read by a family's function make it possible to write the model's
// files in the other format.
type Setting struct {
	Name string // name in config.json; "" if it has none
	GGUF string // key in GGUF files, beginning with a dot if prefixed by the architecture; "" if it has none
	// Value is an int, float64, bool, string, []int or []string: the file's value, or the family's default. nil means
	// that there is nothing to write.
	Value any
	// Usual is set if the value is the family's default or follows from other parts of the files. Formats without a
	// name for the setting then lose nothing.
	Usual bool
}

// Say records a setting, replacing an earlier record of the same one.
func (r *Reader) Say(k Keys, value any, usual bool) {
	s := Setting{k[0], k[1], value, usual}
	same := func(o Setting) bool { return o.Name == s.Name && o.GGUF == s.GGUF }
	if i := slices.IndexFunc(r.said, same); i >= 0 {
		r.said[i] = s
		return
	}
	r.said = append(r.said, s)
}

// Rotated returns the number of rows per head if GGUF and Hugging Face files store a parameter's rows in different
// order: row i of the first half of a head is row 2i in GGUF files, and row i of the second half is row 2i+1. It
// returns 0 if the orders are the same.
func (m *Model) Rotated(p nn.Param) int {
	if !m.Family.Paired {
		return 0
	}
	for _, part := range []string{".self_attn.q_proj.", ".self_attn.k_proj."} {
		if strings.Contains(p.Name, part) {
			return m.HeadWidth
		}
	}
	return 0
}

// MLXName returns a parameter's name in MLX files, which store all experts in one tensor.
func MLXName(p nn.Param) string {
	for name, other := range map[string]string{".k_b_proj.": ".embed_q.", ".v_b_proj.": ".unembed_out."} {
		if scope, kind, ok := strings.Cut(p.Name, name); ok {
			return scope + other + kind
		}
	}
	scope, _, ok := strings.Cut(p.Name, "experts.*.")
	if !ok {
		return p.Name
	}
	gguf, kind, _ := cutLast(p.GGUF)
	for end, name := range map[string]string{"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"} {
		if strings.HasSuffix(gguf, end) {
			return scope + "switch_mlp." + name + "." + kind
		}
	}
	return strings.Replace(p.Name, "experts.*.", "switch_mlp.", 1)
}

// cutLast splits a name at its last dot.
func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// Params returns a model's parameters, with their element types in a checkpoint. It is an error if the checkpoint
// has surplus tensors.
func Params(m *Model, c *checkpoint.Checkpoint) (params []nn.Param, err error) {
	_, err = graph.Trace("model", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: DType(c), Stored: Stored(c)})
		out := m.Forward(s, t.Input("tokens", graph.I32, 1, 1), &nn.Step{})
		params = s.Params()
		return []*graph.Value{out}
	})
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", c.Path, err)
	}
	return params, Surplus(c, params)
}
