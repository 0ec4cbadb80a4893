package main

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// moeLayer is a layer of T tokens of D columns and E SwiGLU experts of width F, K per token.
type moeLayer struct {
	Tokens, Hidden, Experts, TopK, FFN int
	DType                              graph.DType // of everything except the router, which is f32
}

// moeWorkloads returns the layer forward, and forward and backward.
func moeWorkloads() []workload {
	var ws []workload
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for _, experts := range []int{8, 32, 128, 256} {
			l := moeLayer{Tokens: 1024, Hidden: 512, Experts: experts, TopK: 2, FFN: 1024, DType: d}
			for _, backward := range []bool{false, true} {
				if experts > 8 && d != graph.F32 || experts > 32 && backward {
					continue // needs too much memory
				}
				ws = append(ws, l.workload(backward))
			}
		}
	}
	return ws
}

func (l moeLayer) workload(backward bool) workload {
	what, products := "forward", 3
	if backward {
		what, products = "backward", 9
	}
	w := workload{
		name: fmt.Sprintf("moe/%s/%s/E=%d", l.DType, what, l.Experts),
		title: fmt.Sprintf("MoE layer, %s, %s, T=%d D=%d E=%d k=%d F=%d", map[bool]string{false: "forward", true: "forward and backward"}[backward],
			l.DType, l.Tokens, l.Hidden, l.Experts, l.TopK, l.FFN),
		peer:      fmt.Sprintf("moe_%s_%s", l.DType, what),
		params:    map[string]any{"experts": l.Experts, "top_k": l.TopK},
		flop:      2 * float64(l.Tokens*l.TopK*products*l.Hidden*l.FFN),
		tolerance: 2e-5,
		target:    0.7,
		threads:   []int{2},
		peers:     []string{torchName, torchPlainName, jaxName},
		open:      func(threads int) (*subject, error) { return l.open(backward, threads) },
	}
	if l.DType != graph.F32 {
		w.tolerance, w.peers = 3e-2, []string{torchName, jaxName}
	}
	return w
}

func (l moeLayer) open(backward bool, threads int) (*subject, error) {
	p, err := l.program()
	if err != nil {
		return nil, err
	}
	want := []string{"", "out"}
	if backward {
		// The output itself is not a result of a training step.
		if p, err = vjp.Grad(p); err != nil {
			return nil, err
		}
		want = []string{"loss", ""}
		for _, v := range p.In {
			want = append(want, "grad_"+v.Name)
		}
	}
	d, f, e := l.Hidden, l.FFN, l.Experts
	return ofProgram(p, threads, map[string]array.Array{
		"x":      normal(1, 1, l.DType, l.Tokens, d),
		"router": normal(2, fanIn(d), graph.F32, d, e),
		"gate":   normal(3, fanIn(d), l.DType, e, d, f),
		"up":     normal(4, fanIn(d), l.DType, e, d, f),
		"down":   normal(5, fanIn(f), l.DType, e, f, d),
	}, want...)
}

// program traces the layer. Its results are half the sum of squares of the output, and the output.
func (l moeLayer) program() (*graph.Program, error) {
	return graph.Trace("moe", func(t *graph.Tracer) []*graph.Value {
		d, f, e := l.Hidden, l.FFN, l.Experts
		x := t.Input("x", l.DType, l.Tokens, d)
		router := t.Input("router", graph.F32, d, e)
		gate, up, down := t.Input("gate", l.DType, e, d, f), t.Input("up", l.DType, e, d, f), t.Input("down", l.DType, e, f, d)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: l.TopK, Renormalize: true}, primitives.MatMul(primitives.ConvertElementType(x, graph.F32), router), nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: e}, experts)
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
		y := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
		y = primitives.Mul(y, primitives.ConvertElementType(primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0), l.DType))
		out := primitives.Combine(r, y)
		return []*graph.Value{primitives.MulScalar(primitives.ReduceSum(primitives.Square(primitives.ConvertElementType(out, graph.F32))), 0.5), out}
	})
}
