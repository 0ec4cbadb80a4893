package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// Setting is something that a model says about itself. What a family's function reads of a checkpoint are its
// settings, so that a file of the other kind can be written with them.
type Setting struct {
	Name string // in config.json; "" if it is not there
	GGUF string // the key of a GGUF file; it begins with a dot if the architecture stands before it; "" if there is none
	// Value is an int, float64, bool, string, []int or []string: what the file says, or what its family means where the
	// file says nothing. nil says that there is nothing to write.
	Value any
	// Usual says that it is what the family means where the file says nothing, or that something else in the files says it,
	// too: files without a name for it lose nothing.
	Usual bool
}

// say notes a setting. What is said later about the same one is valid.
func (r *reader) say(k keys, value any, usual bool) {
	s := Setting{k[0], k[1], value, usual}
	same := func(o Setting) bool { return o.Name == s.Name && o.GGUF == s.GGUF }
	if i := slices.IndexFunc(r.said, same); i >= 0 {
		r.said[i] = s
		return
	}
	r.said = append(r.said, s)
}

// Architecture returns the name that a family has in files of a format.
func Architecture(name, format string) string {
	for _, f := range families() {
		if f.name == name && format == checkpoint.GGUF {
			return f.gguf
		}
	}
	return name
}

// pairedInGGUF reports whether the pairs of rotary positions are neighbours in GGUF files of an architecture. In Hugging
// Face's files they are half a head apart, and so they are in GGUF files of all other architectures.
func pairedInGGUF(architecture string) bool { return architecture == "llama" }

// Rotated returns the rows of a head if a parameter has other rows of heads in GGUF files than in Hugging Face's: row i of
// the first half of a head is row 2i in GGUF files, and row i of the second half is row 2i+1. It returns 0 if the rows
// are the same ones.
func (m *Model) Rotated(p nn.Param) int {
	if !pairedInGGUF(Architecture(m.Family, checkpoint.GGUF)) {
		return 0
	}
	for _, part := range []string{".self_attn.q_proj.", ".self_attn.k_proj."} {
		if strings.Contains(p.Name, part) {
			return m.HeadWidth
		}
	}
	return 0
}

// MLXName returns the name of a parameter in MLX's files, where all experts are in one tensor.
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

// cutLast cuts a name at its last dot.
func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// Params returns the parameters of a model, with the element types that they have in a checkpoint. Surplus tensors of
// the checkpoint are an error.
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
