package fuzzprog

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// This file has products with weights in blocks, which are inputs without a gradient, and
// with 8-bit floats that have scales.

// columns is the number of elements of a block of the types that programs use.
const columns = 32

// stored returns an input of element type d with elements in [-1, 1).
func (g *gen) stored(d graph.DType, shape ...int) *graph.Value {
	return g.t.Input(fmt.Sprintf("w%d", len(g.t.Program().In)), d, shape...)
}

func (g *gen) blockType() graph.DType {
	return pick(g, []graph.DType{graph.Q8_0, graph.Q4_0, graph.MXFP4})
}

// inBlocks multiplies rows by a matrix in blocks: along the blocks if v has as many
// columns as a block, and otherwise from the columns of v to a block's columns.
func (g *gen) inBlocks(v val) {
	if v.Rank() < 1 || v.Rank() > 3 || g.inside > 0 || len(g.t.Program().In) >= 2*maxInputs {
		return
	}
	n := v.Dim(-1)
	if v.layer == nil && g.chance(40) {
		v = g.like(1+g.r.IntN(8), columns)
		n = columns
	}
	size := v.size*float64(n) + 1
	along := n == columns
	if !along && (n == 0 || v.Type.Len()/n*columns > maxLen) {
		return
	}
	shape := []int{n, columns}
	if along {
		shape = []int{1 + g.r.IntN(6), columns}
	}
	if l := v.layer; l != nil {
		if v.Rank() == 2 {
			w := g.stored(g.blockType(), append([]int{l.Op.Experts}, shape...)...)
			g.add(apply("grouped_matmul", struct{ Transpose bool }{along}, v.Value, w, l.Value), size, l)
		}
		return
	}
	w := g.stored(g.blockType(), shape...)
	contracted := 0
	if along {
		contracted = 1
	}
	if g.chance(30) { // the weights come first
		g.add(primitives.DotGeneral(w, v.Value, []int{contracted}, []int{v.Rank() - 1}, nil, nil), size, nil)
		return
	}
	g.add(primitives.DotGeneral(v.Value, w, []int{v.Rank() - 1}, []int{contracted}, nil, nil), size, nil)
}

// scaleBlock is the number of rows and of columns of a matrix sharing a scale.
const scaleBlock = 128

// scaled multiplies rows by a matrix of 8-bit floats with scales.
func (g *gen) scaled(v val) {
	if v.Rank() < 1 || g.inside > 0 || len(g.t.Program().In) >= 2*maxInputs {
		return
	}
	n, out := v.Dim(-1), 1+g.r.IntN(6)
	if n == 0 || v.Type.Len()/n*out > maxLen {
		return
	}
	d := pick(g, []graph.DType{graph.F8_E4M3, graph.F8_E5M2})
	shape, back := []int{out, n}, g.chance(30)
	if back {
		slices.Reverse(shape)
	}
	scales := []int{(shape[0] + scaleBlock - 1) / scaleBlock, (shape[1] + scaleBlock - 1) / scaleBlock}
	if l := v.layer; l != nil {
		if v.Rank() == 2 {
			s := g.like(append([]int{l.Op.Experts}, scales...)...)
			w := g.stored(d, append([]int{l.Op.Experts}, shape...)...)
			g.add(apply("grouped_scaled_matmul", struct{ Transpose bool }{!back}, v.Value, w, l.Value, s.Value), v.size*s.size*float64(n)+1, l)
		}
		return
	}
	s := g.like(scales...)
	g.add(apply("scaled_matmul", struct{ Transpose bool }{!back}, v.Value, g.stored(d, shape...), s.Value), v.size*s.size*float64(n)+1, nil)
}
