package primitives_test

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// pullback returns p's derivative, from p's inputs and ct_0 to the cotangents of its
// float inputs.
func pullback(t *testing.T, p *graph.Program) *graph.Program {
	t.Helper()
	q, err := vjp.Pullback(p)
	require.NoError(t, err)
	return q
}

// halfSquares is 0.5 Σ x², in f64 for f64 and in f32 for other types.
func halfSquares(x *graph.Value) *graph.Value {
	if x.Type.DType != graph.F64 {
		x = primitives.ConvertElementType(x, graph.F32)
	}
	axes := make([]int, x.Rank())
	for i := range axes {
		axes[i] = i
	}
	return primitives.MulScalar(primitives.ReduceSum(primitives.Square(x), axes...), 0.5)
}

// linspace returns TransformerEngine's identity tokens, rounded to bf16.
func linspace(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(array.BrainOf(float32(0.1 + 0.8*float64(i)/float64(max(n-1, 1)))).Float32())
	}
	return x
}

// With identity experts, the gradient of the loss 0.5 |out|² is the tokens, and that of
// 0.5 |rows|², over the rows in expert order, is K times the tokens. Both are exact;
// TransformerEngine allows 5e-2.
func TestContractIdentityGradients(t *testing.T) {
	const tokens, h, k = 8, 32, 2
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		for name, route := range map[string]func(token, choice int) int{"uniform": uniform4, "nonuniform": nonuniform4} {
			t.Run(fmt.Sprintf("%s %s", d, name), func(t *testing.T) {
				p := newProblem(rng(1), primitives.PrepareOp{Experts: 4}, tokens, k).route(route)
				x := linspace(tokens * h)
				in := arrays{"idx": ids(p.idx, tokens, k), "x": of(graph.T(d, tokens, h), x), "w": of(graph.T(d, tokens, k), slices.Repeat([]float64{0.5}, tokens*k))}
				double := make([]float64, len(x))
				for i := range x {
					double[i] = k * x[i]
				}
				eachSpread(t, func(t *testing.T, s spread) {
					prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
						x, w := tr.Input("x", d, tokens, h), tr.Input("w", d, tokens, k)
						r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Align: 16, Axis: s.axis, Exchange: s.exchange}, tr.Input("idx", graph.I32, tokens, k))
						rows, rw := primitives.DispatchWeighted(r, x, w)
						home := vjp.Gradients(halfSquares(primitives.Combine(r, weighted(rows, rw))), x)[0]
						away := vjp.Gradients(halfSquares(rows), x)[0]
						return []*graph.Value{home, away}
					})
					out := s.run(t, prog, in)
					for i := range out {
						require.True(t, out[i].Type.Equal(in["x"].Type), "gradient %d is %s, want %s", i, out[i].Type, in["x"].Type)
					}
					same(t, "gradient through the round trip", out[0], x)
					same(t, "gradient of the rows", out[1], double)
				})
			})
		}
	}
}

// Combine sends back to a slot its token's cotangent times the slot's weight: experts'
// results of 0.5 with weights 0.5 combine to 0.5, and every slot gets 0.25. A number per
// choice travels with each slot and is in every column of it; its cotangent shows the
// slot's own value.
func TestContractCombineGradient(t *testing.T) {
	const tokens, h, k = 8, 32, 2
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 4}, tokens, k).route(nonuniform4)
	half := slices.Repeat([]float64{0.5}, tokens*k)
	for _, d := range []graph.DType{graph.F32, graph.BF16} {
		t.Run(d.String(), func(t *testing.T) {
			in := arrays{"idx": ids(p.idx, tokens, k), "w": of(graph.T(d, tokens, k), half), "y": of(graph.T(d, tokens, k), half), "x": array.New(graph.T(d, tokens, h))}
			eachSpread(t, func(t *testing.T, s spread) {
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					x, w, y := tr.Input("x", d, tokens, h), tr.Input("w", d, tokens, k), tr.Input("y", d, tokens, k)
					r := primitives.Prepare(primitives.PrepareOp{Experts: 4, Align: 16, Axis: s.axis, Exchange: s.exchange}, tr.Input("idx", graph.I32, tokens, k))
					rows, rw := primitives.DispatchWeighted(r, x, w)
					_, ry := primitives.DispatchWeighted(r, x, y)
					eo := primitives.Add(rows, primitives.BroadcastInDim(ry, rows.Type.Shape, 0)) // 0.5 in every column
					loss := halfSquares(primitives.Combine(r, weighted(eo, rw)))
					return append([]*graph.Value{loss}, vjp.Gradients(loss, y, x)...)
				})
				out := s.run(t, prog, in)
				same(t, "loss", out[0], []float64{0.5 * 0.25 * tokens * h})
				same(t, "gradient of slots, summed over columns", out[1], slices.Repeat([]float64{0.25 * h}, tokens*k))
				same(t, "gradient of tokens", out[2], slices.Repeat([]float64{0.25 * k}, tokens*h))
			})
		})
	}
}

// The gradient of a weight comes from its own slot and from no other: it is never an
// average over the choices, and never missing. The gradient of the loss Σ c·w over the
// slots, where c is another number for every pair, is exactly c, also with zero weights,
// duplicates of an expert, unused choices and drops.
func TestContractGradientOfEachWeight(t *testing.T) {
	const tokens, k = 12, 3
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F64} {
		for _, capacity := range []int{0, 2} {
			l := primitives.PrepareOp{Experts: 12, Capacity: capacity, Align: 4}
			p := newProblem(rng(5), l, tokens, k)
			p.idx[6], p.idx[7] = 3, 3
			c, want := make([]float64, tokens*k), make([]float64, tokens*k)
			for i, kept := range p.kept() {
				c[i] = float64(i + 1)
				if kept {
					want[i] = c[i]
				}
			}
			t.Run(fmt.Sprintf("%s capacity %d", d, capacity), func(t *testing.T) {
				eachSpread(t, func(t *testing.T, s spread) {
					l.Axis, l.Exchange = s.axis, s.exchange
					prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
						x, w, y := tr.Input("x", graph.BF16, tokens, 4), tr.Input("w", d, tokens, k), tr.Input("y", d, tokens, k)
						r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, k))
						_, rw := primitives.DispatchWeighted(r, x, w)
						_, rc := primitives.DispatchWeighted(r, x, y)
						return vjp.Gradients(primitives.ReduceSum(primitives.Mul(rw, rc), 0), w, x)
					})
					in := p.arrays(graph.BF16)
					in["w"], in["y"] = of(graph.T(d, tokens, k), p.w), of(graph.T(d, tokens, k), c)
					out := s.run(t, prog, in)
					require.Equal(t, d, out[0].Type.DType)
					same(t, "gradient of the weights", out[0], want)
					same(t, "gradient of the tokens", out[1], make([]float64, tokens*4))
				})
			})
		}
	}
}

// A loss that is linear in the rows has a constant for its cotangent, which
// lies in expert order like any other: of dispatched rows, of experts' results
// and of weights alone.
func TestContractConstantCotangents(t *testing.T) {
	p := newProblem(rng(5), primitives.PrepareOp{Experts: 12, Capacity: 3, Align: 4}, 12, 2)
	dx, dw, through, dk := make([]float64, 12*4), make([]float64, 24), make([]float64, 12*4), make([]float64, 12*4*3)
	for i, kept := range p.kept() {
		if !kept {
			continue
		}
		dw[i] = 1
		for a := range 4 {
			dx[i/2*4+a]++
			for b := range 3 {
				j := (int(p.idx[i])*4+a)*3 + b
				through[i/2*4+a] += p.kernel[j]
				dk[j] += p.x[i/2*4+a]
			}
		}
	}
	eachSpread(t, func(t *testing.T, s spread) {
		l := p.layer
		l.Axis, l.Exchange = s.axis, s.exchange
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			x, w, kernel := tr.Input("x", graph.F32, 12, 4), tr.Input("w", graph.F32, 12, 2), tr.Input("kernel", graph.F32, 12, 4, 3)
			r := primitives.Prepare(l, tr.Input("idx", graph.I32, 12, 2))
			rows, rw := primitives.DispatchWeighted(r, x, w)
			y := primitives.GroupedMatMul(r, rows, kernel)
			return slices.Concat(
				vjp.Gradients(primitives.ReduceSum(rows, 0, 1), x, w),
				vjp.Gradients(primitives.ReduceSum(rw, 0), x, w),
				vjp.Gradients(primitives.ReduceSum(y, 0, 1), x, kernel))
		})
		none, noneW := make([]float64, 12*4), make([]float64, 24)
		for i, got := range s.run(t, prog, p.arrays(graph.F32)) {
			same(t, fmt.Sprintf("gradient %d", i), got, [][]float64{dx, noneW, none, dw, through, dk}[i])
		}
	})
}

// Weights applied before the experts, after them, or on the token's rank give
// the same layer with the same gradient.
func TestContractEarlyAndLateWeights(t *testing.T) {
	p := newProblem(rng(9), primitives.PrepareOp{Experts: 12, Capacity: 4}, 12, 2)
	out, dx, dw, dk := p.dense()
	eachSpread(t, func(t *testing.T, s spread) {
		l := p.layer
		l.Axis, l.Exchange = s.axis, s.exchange
		early := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(l, tr.Input("idx", graph.I32, 12, 2))
			rows, rw := primitives.DispatchWeighted(r, tr.Input("x", graph.F32, 12, 4), tr.Input("w", graph.F32, 12, 2))
			return []*graph.Value{primitives.Combine(r, primitives.GroupedMatMul(r, weighted(rows, rw), tr.Input("kernel", graph.F32, 12, 4, 3)))}
		})
		in := p.arrays(graph.F32)
		same(t, "out", s.run(t, early, in)[0], out)
		got := s.run(t, pullback(t, early), in)
		same(t, "gradient of tokens", got[0], dx)
		same(t, "gradient of weights", got[1], dw)
		same(t, "gradient of experts", got[2], dk)
	})
}

// <Dx,y> = <x,Dᵀy> and <Dw,u> = <w,Dᵀu>, exactly, for a hundred random
// routings with unused choices, duplicates, drops and alignment. y and u differ
// in every slot. Each is run on a session that has run others before.
func TestContractAdjoint(t *testing.T) {
	const tokens, k, h = 12, 3, 4
	for _, l := range []primitives.PrepareOp{{Experts: 12}, {Experts: 6, Capacity: 4, Align: 4}, {Experts: 12, Capacity: 1, Align: 3}} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			eachSpread(t, func(t *testing.T, s spread) {
				l.Axis, l.Exchange = s.axis, s.exchange
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					x, w := tr.Input("x", graph.F32, tokens, h), tr.Input("w", graph.F32, tokens, k)
					y, u := tr.Input("y", graph.F32, tokens, h), tr.Input("u", graph.F32, tokens, k)
					r := primitives.Prepare(l, tr.Input("idx", graph.I32, tokens, k))
					dx, dw := primitives.DispatchWeighted(r, x, w)
					ry, ru := primitives.DispatchWeighted(r, y, u)
					ry = weighted(ry, ru)
					lhs, lhsW := primitives.ReduceSum(primitives.Mul(dx, ry), 0, 1), primitives.ReduceSum(primitives.Mul(dw, ru), 0)
					rhs := primitives.ReduceSum(primitives.Mul(x, primitives.Combine(r, ry)), 0, 1)
					back := vjp.Gradients(lhsW, w)[0]
					return []*graph.Value{lhs, rhs, lhsW, primitives.ReduceSum(primitives.Mul(w, back), 0, 1)}
				})
				j := s.open(t, prog)
				for seed := range 100 {
					r := rng(seed)
					p := newProblem(r, l, tokens, k)
					q := newProblem(r, l, tokens, k)
					out := step(t, j, prog, arrays{"idx": ids(p.idx, tokens, k), "x": of(graph.T(graph.F32, tokens, h), p.x), "y": of(graph.T(graph.F32, tokens, h), q.x),
						"w": of(graph.T(graph.F32, tokens, k), p.w), "u": of(graph.T(graph.F32, tokens, k), q.w)})
					want, wantW := 0.0, 0.0
					for i, kept := range p.kept() {
						if kept {
							wantW += p.w[i] * q.w[i]
							for c := range h {
								want += p.x[i/k*h+c] * q.x[i/k*h+c] * q.w[i]
							}
						}
					}
					same(t, "<Dx,y>", out[0], []float64{want})
					same(t, "<x,Dᵀy>", out[1], []float64{want})
					same(t, "<Dw,u>", out[2], []float64{wantW})
					same(t, "<w,Dᵀu>", out[3], []float64{wantW})
				}
			})
		})
	}
}

// Gradients have the placement, the element type and the shape of their values.
func TestContractGradientsLieWhereValuesLie(t *testing.T) {
	p := newProblem(rng(2), primitives.PrepareOp{Experts: 12, Align: 4}, 12, 2)
	eachSpread(t, func(t *testing.T, s spread) {
		for _, tokens := range []string{s.tokens, ""} {
			s := s
			s.tokens = tokens
			prog := pullback(t, p.program(t, s, graph.BF16))
			plan, err := gomoe.Compile(t.Context(), prog, s.config(t, prog))
			require.NoError(t, err)
			matched := 0
			for _, out := range plan.Out {
				for _, in := range plan.In {
					if out.Name != "grad("+in.Name+")" {
						continue
					}
					matched++
					if !out.Type.Equal(in.Type) || !out.Spec.Equal(in.Spec) {
						t.Errorf("%s is %s, want it like %s", out.Name, out.Spec.Format(out.Type), in.Spec.Format(in.Type))
					}
				}
			}
			require.Equal(t, 3, matched)
		}
	})
}

// With real numbers, results and the gradients of tokens and weights have the bits of
// one rank on every mesh; sums of ranks are close. An expert's weight gradient is summed over the ranks
// that hold a copy of the expert, and over no others: it has the bits of one rank if
// there is one copy, and otherwise is close to them.
func TestContractBitsOfOneRank(t *testing.T) {
	for _, d := range floatTypes {
		p := newProblem(rng(4), primitives.PrepareOp{Experts: 12, Align: 2}, 24, 2)
		in := p.arrays(d)
		r := rng(8)
		for _, name := range []string{"x", "w", "kernel", "ct_0"} {
			in[name] = uniform(-1, 1)(r, in[name].Type)
		}
		fwd, bwd := p.program(t, spread{}, d), pullback(t, p.program(t, spread{}, d))
		out, grads := spread{}.run(t, fwd, in), spread{}.run(t, bwd, in)
		t.Run(d.String(), func(t *testing.T) {
			tol := map[graph.DType]float64{graph.F64: 1e-14, graph.F32: 1e-6, graph.F16: 2e-3, graph.BF16: 2e-2}[d]
			eachSpread(t, func(t *testing.T, s spread) {
				s.sameOrClose(t, "out", s.run(t, p.program(t, s, d), in)[0], out[0], 3*tol)
				got := s.run(t, pullback(t, p.program(t, s, d)), in)
				s.sameOrClose(t, "gradient of tokens", got[0], grads[0], 3*tol)
				sameBits(t, "gradient of weights", got[1], grads[1])
				if s.copies(t) == 1 {
					sameBits(t, "gradient of experts", got[2], grads[2])
					return
				}
				if diff, at := array.MaxDiff(got[2], grads[2]); diff > tol*3 { // elements reach about 3
					t.Errorf("gradient of experts: element %d differs by %g from one rank", at, diff)
				}
			})
		})
	}
}

// copies returns how many ranks with tokens of their own hold an expert.
func (s spread) copies(t *testing.T) int {
	m := s.parse(t)
	axes := slices.DeleteFunc(slices.Clone(sharding.Split(s.tokens).Dims[0]), func(a string) bool { return a == s.axisName() })
	return m.Parts(axes)
}

// Five steps of one session and sessions with other numbers of threads have the
// same bits.
func TestContractDeterministic(t *testing.T) {
	p := newProblem(rng(4), primitives.PrepareOp{Experts: 12, Align: 2}, 24, 3)
	in := p.arrays(graph.F32)
	for _, name := range []string{"x", "w", "kernel", "ct_0"} {
		in[name] = uniform(-1, 1)(rng(8), in[name].Type)
	}
	eachSpread(t, func(t *testing.T, s spread) {
		prog := pullback(t, p.program(t, s, graph.F32))
		var first []array.Array
		for _, threads := range []int{1, 4} {
			func() {
				defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(threads))
				j := s.open(t, prog)
				for range 5 {
					out := step(t, j, prog, in)
					if first == nil {
						first = out
					}
					for i := range out {
						sameBits(t, fmt.Sprintf("gradient %d with %d threads", i, threads), out[i], first[i])
					}
				}
			}()
		}
	})
}
