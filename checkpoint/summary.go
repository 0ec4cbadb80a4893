package checkpoint

import (
	"maps"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/tensor"
)

// Summary lists the contents of a model.
type Summary struct {
	Layers     int
	Experts    int // maximum per layer; 0 if there are none
	TopK       int // experts per token; 0 if unknown
	Layouts    []Layout
	Parameters int64
	Active     int64 // parameters used per token; 0 if the number of experts per token is unknown
	Bytes      int64
	Parts      []PartSummary // non-empty parts, in the order of function Parts
}

// PartSummary lists the contents of a part of a model.
type PartSummary struct {
	Part       Part
	Tensors    int
	Parameters int64
	Bytes      int64
	Types      []string // the file's names of the element types, sorted
}

// Summary counts the model's tensors. It is an error if a setting is malformed.
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

// parameters returns the number of weights in a tensor: 0 for scales, and more than the number of elements if an
// element packs several weights.
func (c *Checkpoint) parameters(t tensor.Tensor, r Role) int64 {
	n := int64(1)
	for _, d := range t.Type.Shape {
		n *= int64(d)
	}
	if r.Scales {
		return 0
	}
	if q, err := c.Quantization(t.Name); err == nil && q.Bits > 0 && t.Stored == "U32" {
		return n * 32 / int64(q.Bits) // MLX's packed words
	}
	if r.Layout == Blocks && t.Stored == "U8" {
		return 2 * n // two 4-bit numbers per element
	}
	return n
}
