package checkpoint

import (
	"maps"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/tensor"
)

// Summary is what a model consists of.
type Summary struct {
	Layers     int
	Experts    int // of the layer that has most; 0 if there are none
	TopK       int // experts that a token uses; 0 if the model does not say it
	Layouts    []Layout
	Parameters int64
	Active     int64 // parameters that a token uses; 0 if the model does not say how many experts it uses
	Bytes      int64
	Parts      []PartSummary // those that the model has, in the order of Parts
}

// PartSummary is what a part of a model consists of.
type PartSummary struct {
	Part       Part
	Tensors    int
	Parameters int64
	Bytes      int64
	Types      []string // the file's names of the element types, sorted
}

// Summary counts the model's tensors. It is an error if the model says something about itself in a wrong form.
func (c *Checkpoint) Summary() (*Summary, error) {
	s := &Summary{}
	names := NamesOf(c.Config.Architecture)
	parts := map[Part]*PartSummary{}
	types := map[Part]map[string]bool{}
	layouts := map[Layout]bool{}
	for _, t := range c.Tensors {
		r := names.Role(t.Name)
		if parts[r.Part] == nil {
			parts[r.Part], types[r.Part] = &PartSummary{Part: r.Part}, map[string]bool{}
		}
		p := parts[r.Part]
		n := c.parameters(t, r)
		p.Tensors++
		p.Parameters += n
		p.Bytes += int64(len(t.Mem))
		types[r.Part][t.Stored] = true
		s.Parameters += n
		s.Bytes += int64(len(t.Mem))
		s.Layers = max(s.Layers, r.Layer+1)
		if r.Part == Experts {
			layouts[r.Layout] = true
			s.Experts = max(s.Experts, r.Expert+1)
			if r.Layout != PerExpert && len(t.Type.Shape) > 0 {
				s.Experts = max(s.Experts, t.Type.Shape[0])
			}
		}
	}
	for _, p := range Parts() {
		if parts[p] != nil {
			parts[p].Types = slices.Sorted(maps.Keys(types[p]))
			s.Parts = append(s.Parts, *parts[p])
		}
	}
	s.Layouts = slices.Sorted(maps.Keys(layouts))
	var err error
	for _, key := range []string{"num_experts_per_tok", "num_experts_per_token", "top_k", ".expert_used_count"} {
		if s.TopK == 0 && err == nil {
			s.TopK, _, err = c.Config.Int(key)
		}
	}
	if s.Active = s.Parameters; s.Experts > 0 {
		s.Active = 0
		if s.TopK > 0 {
			experts := parts[Experts].Parameters
			s.Active = s.Parameters - experts + experts/int64(s.Experts)*int64(min(s.TopK, s.Experts))
		}
	}
	return s, err
}

// parameters returns the numbers that a tensor stands for: none for scales, which belong to another tensor's
// numbers, and more than it has elements if several numbers lie in one.
func (c *Checkpoint) parameters(t tensor.Tensor, r Role) int64 {
	n := int64(1)
	for _, d := range t.Type.Shape {
		n *= int64(d)
	}
	if r.Scales {
		return 0
	}
	if q, err := c.Quantization(t.Name); err == nil && q.Bits > 0 && t.Stored == "U32" {
		return n * 32 / int64(q.Bits) // MLX's words
	}
	if r.Layout == Blocks && t.Stored == "U8" {
		return 2 * n // two numbers of 4 bits
	}
	return n
}
