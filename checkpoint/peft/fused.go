package peft

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
)

// PEFT adapts the experts of transformers 5 as parameters of one module: gate_up_proj, holding gate and up of all
// experts, and down_proj. The wrappers of a module's parameters are nested, so the names of tensors contain
// `base_layer` once for each enclosing wrapper. With E experts and rank R the tensors of a parameter are
//
//	lora_A [E·R,in]   rows of expert 0, then of expert 1, …
//	lora_B [out,R·E]  column r·E+e is column r of expert e
//
// where out counts the rows of gate and up together: gate followed by up, or interleaved in gpt-oss. Source: PEFT
// 0.21, peft/tuners/lora/layer.py, ParamWrapper, and peft/utils/transformers_weight_conversion.py.

const (
	gateUp = "gate_up_proj"
	down   = "down_proj"
	inner  = ".base_layer"
)

// parameters returns the adapted parameters of a module of experts, innermost first.
func (c *config) parameters(module string) (all []string) {
	for _, p := range []string{gateUp, down} {
		if slices.ContainsFunc(c.Parameters, func(t string) bool { return module+"."+p == t || strings.HasSuffix(module+"."+p, "."+t) }) {
			all = append(all, p)
		}
	}
	return all
}

// fused returns the matrices, with a star for the number of the expert, adapted by the tensors of a wrapper around
// a module of experts, and the name of the parameter.
func (c *config) fused(wrapper string) (names []string, parameter string) {
	module := strings.ReplaceAll(wrapper, inner, "")
	if !strings.HasSuffix(module, ".experts") {
		return nil, ""
	}
	all := c.parameters(module)
	depth := strings.Count(wrapper, inner)
	if depth >= len(all) {
		return nil, ""
	}
	p := all[len(all)-1-depth]
	if p == down {
		return []string{module + ".*." + down}, module + "." + p
	}
	return []string{module + ".*.gate_proj", module + ".*.up_proj"}, module + "." + p
}

// half locates the rows of a matrix within a fused parameter: the matrix is number first of count matrices.
type half struct{ first, count int }

// row returns the row of the fused parameter holding row i of the matrix, which has out rows. With turns, as in
// gpt-oss, the rows of gate and up are interleaved.
func (h half) row(i, out int, turns bool) int {
	if turns {
		return h.first + h.count*i
	}
	return h.first*out + i
}

// unfused returns the factors of a matrix's experts, [E,R,in] and [E,out,R], from the tensors of a fused parameter.
// R is the matrix's share of the rank.
func unfused(a, b array.Array, p pair, m nn.Adapter, turns bool) (array.Array, array.Array) {
	first, rank := p.share()
	as, bs := array.New(graph.T(graph.F32, m.Experts, rank, m.In)), array.New(graph.T(graph.F32, m.Experts, m.Out, rank))
	from, to := array.Data[float32](a), array.Data[float32](as)
	for e := range m.Experts {
		copy(to[e*rank*m.In:][:rank*m.In], from[(e*p.rank+first)*m.In:])
	}
	from, to = array.Data[float32](b), array.Data[float32](bs)
	for e := range m.Experts {
		for o := range m.Out {
			row := from[p.half.row(o, m.Out, turns)*p.rank*m.Experts:]
			for r := range rank {
				to[(e*m.Out+o)*rank+r] = row[(first+r)*m.Experts+e]
			}
		}
	}
	return as, bs
}

// factors holds the factors of a matrix of experts, [E,R,in] and [E,out,R], and locates its rows in the fused
// parameter.
type factors struct {
	a, b array.Array
	half
}

// fuse returns the tensors of a fused parameter of one or two matrices. The ranks add up: each matrix has its own
// columns of lora_B, which are zero in the rows of the other.
func fuse(parts []factors, turns bool) (a, b array.Array) {
	shape := parts[0].a.Type.Shape
	experts, rank, in, out := shape[0], shape[1], shape[2], parts[0].b.Type.Shape[1]
	all := rank * len(parts)
	a, b = array.New(graph.T(graph.F32, experts*all, in)), array.New(graph.T(graph.F32, out*parts[0].count, all*experts))
	as, bs := array.Data[float32](a), array.Data[float32](b)
	for i, p := range parts {
		pa, pb := array.Data[float32](p.a), array.Data[float32](p.b)
		for e := range experts {
			copy(as[(e*all+i*rank)*in:], pa[e*rank*in:][:rank*in])
			for o := range out {
				for r := range rank {
					bs[p.row(o, out, turns)*all*experts+(i*rank+r)*experts+e] = pb[(e*out+o)*rank+r]
				}
			}
		}
	}
	return a, b
}
