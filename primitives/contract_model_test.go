package primitives_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// model returns a program of two MoE layers with routers, gated experts, residuals and a
// squared loss. Its results are the loss, the output and, with grad, all gradients.
func model(t *testing.T, d graph.DType, l primitives.PrepareOp, k int, score string, grad bool) *graph.Program {
	const tokens, h, f = 24, 8, 6
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", d, tokens, h)
		target := tr.Input("y", d, tokens, h)
		wrt := []*graph.Value{x}
		y := x
		for i := range 2 {
			in := func(name string, shape ...int) *graph.Value {
				v := tr.Input(fmt.Sprintf("%s%d", name, i), d, shape...)
				wrt = append(wrt, v)
				return v
			}
			router := in("router", h, l.Experts)
			up, down := in("kup", l.Experts, h, f), in("kdown", l.Experts, f, h)
			wide := graph.F32
			if d == graph.F64 {
				wide = d
			}
			logits := primitives.ConvertElementType(primitives.MatMul(y, router), wide)
			var bias *graph.Value
			if score == primitives.SigmoidScore {
				bias = tr.Input(fmt.Sprintf("rbias%d", i), wide, l.Experts)
			}
			w, idx, _ := primitives.Route(primitives.RouteOp{TopK: k, Score: score, Renormalize: true}, logits, bias)
			r := primitives.Prepare(l, idx)
			rows, rw := primitives.DispatchWeighted(r, y, w)
			z := primitives.GroupedMatMul(r, primitives.SiLU(primitives.GroupedMatMul(r, rows, up)), down)
			z = primitives.ConvertElementType(weighted(primitives.ConvertElementType(z, wide), rw), d)
			y = primitives.Add(y, primitives.Combine(r, z))
		}
		loss := halfSquares(primitives.Sub(y, target))
		if !grad {
			return []*graph.Value{loss}
		}
		out := []*graph.Value{loss, y}
		for i, g := range vjp.Gradients(loss, wrt...) {
			out = append(out, g.Named("grad_"+wrt[i].Name))
		}
		return out
	})
}

// The mesh is not part of the model: the forward pass has the bits of one rank on
// every mesh, and every gradient is within rounding of one rank's.
func TestContractModelIsTheSameOnEveryMesh(t *testing.T) {
	for _, c := range []struct {
		d     graph.DType
		l     primitives.PrepareOp
		score string
		tol   float64
	}{
		{graph.F32, primitives.PrepareOp{Experts: 12}, "", 1e-6},
		{graph.F32, primitives.PrepareOp{Experts: 6, Capacity: 5, Align: 8}, "", 1e-6},
		{graph.F32, primitives.PrepareOp{Experts: 12}, primitives.SigmoidScore, 1e-6},
		{graph.BF16, primitives.PrepareOp{Experts: 12, Capacity: 6}, "", 2e-2},
		{graph.BF16, primitives.PrepareOp{Experts: 12, Align: 16}, primitives.SigmoidScore, 2e-2},
	} {
		t.Run(fmt.Sprintf("%s %+v %s", c.d, c.l, c.score), func(t *testing.T) {
			p := model(t, c.d, c.l, 2, c.score, true)
			in := arrays{}
			r := rng(17)
			for _, v := range p.In {
				in[v.Name] = uniform(-1, 1)(r, v.Type)
				if strings.HasPrefix(v.Name, "rbias") {
					in[v.Name] = values(5, -5)(r, v.Type) // odd experts get no tokens
				}
			}
			want := spread{}.run(t, p, in)
			for _, a := range want {
				for _, x := range a.Float64s() {
					require.False(t, math.IsNaN(x) || math.IsInf(x, 0))
				}
			}
			emptyExperts := func(t *testing.T, out []array.Array) {
				checked := 0
				for i, v := range p.Out {
					if c.score != primitives.SigmoidScore || !strings.HasPrefix(v.Name, "grad_k") {
						continue
					}
					checked++
					x := out[i].Float64s()
					for j, per := 0, len(x)/c.l.Experts; j < len(x); j++ {
						if j/per%2 == 1 && x[j] != 0 {
							t.Fatalf("%s: element %d of expert %d, which has no tokens, is %v", v.Name, j%per, j/per, x[j])
						}
					}
				}
				require.Equal(t, c.score == primitives.SigmoidScore, checked == 4)
			}
			emptyExperts(t, want)
			eachSpread(t, func(t *testing.T, s spread) {
				l := c.l
				l.Axis, l.Exchange = s.axis, s.exchange
				q := model(t, c.d, l, 2, c.score, true)
				got := s.run(t, q, in)
				s.sameOrClose(t, "output", got[1], want[1], c.tol*largest(want[1]))
				emptyExperts(t, got)
				for i := range got {
					if i == 1 {
						continue
					}
					scale := largest(want[i])
					require.Greater(t, scale, 0.0, "result %d is all zero", i)
					if diff, at := array.MaxDiff(got[i], want[i]); diff > c.tol*scale {
						t.Errorf("%s: element %d differs by %g of at most %g from one rank", q.Out[i].Name, at, diff, scale)
					}
				}
			})
		})
	}
}

// Every gradient of the model on a mesh agrees with differences of the loss, also those
// of the routers, which go through softmax and renormalisation.
func TestContractModelGradient(t *testing.T) {
	s := spread{mesh: "dp=2,ep=2", tokens: "dp.ep"}
	p := model(t, graph.F64, primitives.PrepareOp{Experts: 4, Capacity: 9}, 2, "", false)
	in := arrays{}
	r := rng(3)
	for _, v := range p.In {
		in[v.Name] = uniform(-1, 1)(r, v.Type)
	}
	runner := func(p *graph.Program) (vjp.Eval, error) { return s.open(t, p).Step, nil }
	rep, err := vjp.Check(context.Background(), p, in, runner, vjp.CheckOptions{Elements: 30})
	require.NoError(t, err)
	if !rep.OK() {
		t.Errorf("%s", rep)
	}
	require.Len(t, rep.Inputs, 8)
}

// largest returns the largest magnitude of a's elements.
func largest(a array.Array) float64 {
	scale := 0.0
	for _, x := range a.Float64s() {
		scale = max(scale, math.Abs(x))
	}
	return scale
}
