package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
)

// Types returns the values allowed for Options.Type. Block types are for GGUF files only.
func Types() []graph.DType {
	return []graph.DType{graph.F32, graph.F16, graph.BF16, graph.Q8_0, graph.Q6_K, graph.Q4_K, graph.MXFP4}
}

func (o Options) check() error {
	if !slices.Contains([]Layout{Safetensors, MLX, GGUF}, o.Layout) {
		return fmt.Errorf("layout %s, want %s, %s or %s", quoted.Name(o.Layout), Safetensors, MLX, GGUF)
	}
	if o.Type != graph.NoDType && !slices.Contains(Types(), o.Type) {
		return fmt.Errorf("element type %s, want one of %s", o.Type, quoted.Words(Types()))
	}
	if q := o.Affine; q != (nn.Affine{}) {
		if o.Layout != MLX {
			return fmt.Errorf("quantisation in groups is for layout %s, and %s is asked for", MLX, o.Layout)
		}
		if q.Bits != 4 && q.Bits != 8 || !slices.Contains([]int{32, 64, 128}, q.GroupSize) {
			return fmt.Errorf("quantisation to %d bits in groups of %d, want 4 or 8 bits and groups of 32, 64 or 128", q.Bits, q.GroupSize)
		}
	}
	if o.Type.IsBlock() && o.Layout != GGUF {
		return fmt.Errorf("element type %s is for GGUF files, want f32, f16 or bf16", o.Type)
	}
	return nil
}

// typeOf returns the element type of a parameter in the new files. For blocks it follows llama.cpp: the head is at
// least q6_k, because its errors reach the result directly; mxfp4 is for experts, with everything else in q8_0; and
// rows that are not whole blocks get the next type with smaller blocks.
func (j *conversion) typeOf(p nn.Param) (graph.DType, error) {
	stored, want := p.Type.DType, j.o.Type
	part := checkpoint.NamesOf(j.m.Family.Name).Role(strings.Replace(p.Name, "*", "0", 1)).Part
	if want == graph.NoDType {
		want = stored
	}
	if j.o.Layout != GGUF {
		if want.IsBlock() && j.affine(p) {
			return graph.F16, nil
		} else if want == graph.MXFP4 {
			return graph.BF16, nil // represents all of its numbers
		} else if want.IsBlock() {
			return want, fmt.Errorf("%s: parameter %s is in blocks of %s, which safetensors files do not have: ask for f32, f16 or bf16, with -type of gomoe convert or -merge-type of gomoe finetune", j.c.Path, p.Name, want)
		}
		return want, nil
	}
	if len(shapeInGGUF(p)) == 1 || strings.HasSuffix(p.Name, "bias") || part == checkpoint.Router || part == checkpoint.Norms {
		if stored.IsBlock() {
			return stored, nil
		}
		return graph.F32, nil
	}
	if !want.IsBlock() || j.o.Type == graph.NoDType {
		return want, nil
	}
	head := part == checkpoint.Head || part == checkpoint.Embedding && !slices.ContainsFunc(j.params, func(o param) bool { return o.Name == "lm_head.weight" })
	switch {
	case want == graph.MXFP4 && part != checkpoint.Experts:
		want = graph.Q8_0
	case want == graph.Q4_K && head:
		want = graph.Q6_K
	}
	columns := p.Type.Shape[p.Type.Rank()-1]
	whole := func(d graph.DType) bool { n, _ := d.Block(); return columns%n == 0 }
	if !whole(want) {
		switch want {
		case graph.Q4_K:
			want = graph.Q5_0
		case graph.Q6_K:
			want = graph.Q8_0
		}
	}
	if !whole(want) {
		want = graph.F16
	}
	return want, nil
}

// fileType returns llama.cpp's number for the element type of most tensors, or -1 if it has none.
func fileType(d graph.DType) int {
	for n, t := range map[int]graph.DType{0: graph.F32, 1: graph.F16, 2: graph.Q4_0, 3: graph.Q4_1, 7: graph.Q8_0, 8: graph.Q5_0, 9: graph.Q5_1, 10: graph.Q2_K, 11: graph.Q3_K, 14: graph.Q4_K, 16: graph.Q5_K, 18: graph.Q6_K, 32: graph.BF16, 38: graph.MXFP4} {
		if t == d {
			return n
		}
	}
	return -1
}

// most returns the element type of most numbers in the new files, which is the experts' type.
func (j *conversion) most() (graph.DType, error) {
	if j.o.Type != graph.NoDType {
		return j.o.Type, nil
	}
	if i := slices.IndexFunc(j.params, func(p param) bool { return strings.Contains(p.Name, "*") }); i >= 0 {
		return j.typeOf(j.params[i].Param)
	}
	return models.DType(j.c), nil
}
