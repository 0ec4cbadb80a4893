package vjp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// wrap applies a layer to its arguments, with Remat or without.
type wrap func(name string, fn vjp.Forward, args ...*graph.Value) values

func plain(_ string, fn vjp.Forward, args ...*graph.Value) values { return fn(args[0].Tracer(), args) }

func keeping(k vjp.Keep) wrap {
	return func(name string, fn vjp.Forward, args ...*graph.Value) values {
		return vjp.RematKeep(name, k, fn, args...)
	}
}

// stack returns the loss of layers of attention and a gated network on x[1,tokens,d],
// and the gradients of all weights.
func stack(t *testing.T, layers, tokens, d int, wrapped wrap) *graph.Program {
	t.Helper()
	return trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F32, 1, tokens, d)
		y, wrt := x, values(nil)
		for l := range layers {
			in := func(name string, shape ...int) *graph.Value {
				v := tr.Input(fmt.Sprintf("%s%d", name, l), graph.F32, shape...)
				wrt = append(wrt, v)
				return v
			}
			y = wrapped("layer", func(_ *graph.Tracer, a values) values {
				x, norm, q, k, v, o, gate, up, down := a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]
				h := primitives.RMSNorm(x, norm, 1e-5)
				heads := func(w *graph.Value) *graph.Value {
					return primitives.Reshape(primitives.MatMul(h, w), 1, tokens, 4, d/4)
				}
				att, _ := primitives.Attention(primitives.RoPE(heads(q), nil, primitives.RoPEOp{}), primitives.RoPE(heads(k), nil, primitives.RoPEOp{}), heads(v), primitives.AttentionParams{})
				x = primitives.Add(x, primitives.MatMul(primitives.Reshape(att, 1, tokens, d), o))
				h = primitives.RMSNorm(x, norm, 1e-5)
				return values{primitives.Add(x, primitives.MatMul(primitives.SwiGLU(primitives.MatMul(h, gate), primitives.MatMul(h, up)), down))}
			}, y, in("norm", d), in("q", d, d), in("k", d, d), in("v", d, d), in("o", d, d), in("gate", d, 4*d), in("up", d, 4*d), in("down", 4*d, d))[0]
		}
		loss := primitives.ReduceSum(primitives.Square(y))
		return append(values{loss}, vjp.Gradients(loss, wrt...)...)
	})
}

// random returns inputs of p between -1 and 1.
func random(p *graph.Program) map[string]array.Array {
	rng := rand.New(rand.NewPCG(3, 4))
	in := map[string]array.Array{}
	for _, v := range p.In {
		x := make([]float64, v.Type.Len())
		for i := range x {
			x[i] = 2*rng.Float64() - 1
		}
		a := array.New(v.Type)
		if err := a.SetFloat64s(x); err != nil {
			panic(err)
		}
		in[v.Name] = a
	}
	return in
}

// equalBits runs both programs and compares all results.
func equalBits(t *testing.T, what string, cfg gomoe.Config, got, want *graph.Program, in map[string]array.Array) {
	t.Helper()
	a, err := gomoe.Run(context.Background(), got, cfg, in)
	require.NoError(t, err, what)
	b, err := gomoe.Run(context.Background(), want, cfg, in)
	require.NoError(t, err, what)
	for i := range b {
		if !array.Equal(a[i], b[i]) {
			t.Errorf("%s: result %d is %v, want %v", what, i, a[i].Float64s()[:1], b[i].Float64s()[:1])
		}
	}
}

// Eight layers of width 256 on 2048 tokens take 100 MiB of temporaries at most, with all
// passes on; what the gradient keeps of a layer without Remat is three times as much.
func TestRematArena(t *testing.T) {
	const mib = 1 << 20
	arena := func(w wrap, cfg gomoe.Config) int64 {
		plan, err := gomoe.Compile(t.Context(), stack(t, 8, 2048, 256, w), cfg)
		require.NoError(t, err)
		return plan.Arena
	}
	written, all := arena(plain, gomoe.Config{}), arena(vjp.Remat, gomoe.Config{})
	t.Logf("arena of %d MiB as written, %d MiB with Remat", written/mib, all/mib)
	if written < 300*mib {
		t.Errorf("as written: %d MiB, want the case to take 300 or more", written/mib)
	}
	if all >= 100*mib {
		t.Errorf("all computed again: %d MiB, want less than 100", all/mib)
	}
	if got := arena(vjp.Remat, gomoe.Config{Optimize: gomoe.Off}); got >= 110*mib {
		t.Errorf("all computed again, without passes: %d MiB, want less than 110", got/mib)
	}
	if got := arena(keeping(vjp.KeepNamed("nothing")), gomoe.Config{}); got != all {
		t.Errorf("a policy that keeps nothing takes %d bytes, want %d", got, all)
	}
	if got := arena(keeping(primitives.KeepProducts), gomoe.Config{}); got <= all || got >= 300*mib {
		t.Errorf("products kept: %d MiB, want between %d and 300", got/mib, all/mib)
	}
}

// Losses and gradients have the same bits with Remat and without, under every policy.
func TestRematBits(t *testing.T) {
	want := stack(t, 2, 32, 16, plain)
	for name, w := range map[string]wrap{"all": vjp.Remat, "products": keeping(primitives.KeepProducts)} {
		for _, on := range []bool{true, false} {
			equalBits(t, name, gomoe.Config{Optimize: gomoe.SwitchTo(on)}, stack(t, 2, 32, 16, w), want, random(want))
		}
	}
}

// moe returns the loss of two layers of experts and the gradients of all weights.
func moe(t *testing.T, d graph.DType, wrapped wrap) *graph.Program {
	t.Helper()
	const tokens, h, f, experts = 16, 8, 6, 4
	return trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", d, tokens, h)
		y, wrt := x, values{x}
		for l := range 2 {
			in := func(name string, shape ...int) *graph.Value {
				v := tr.Input(fmt.Sprintf("%s%d", name, l), d, shape...)
				wrt = append(wrt, v)
				return v
			}
			y = wrapped("moe", func(_ *graph.Tracer, a values) values {
				y, router, gate, up, down := a[0], a[1], a[2], a[3], a[4]
				w, idx, _ := primitives.Route(primitives.RouteOp{TopK: 2, Renormalize: true}, primitives.MatMul(y, router).Named("logits"), nil)
				r := primitives.Prepare(primitives.PrepareOp{Experts: experts}, idx)
				rows, rw := primitives.DispatchWeighted(r, y, w)
				rows.Named("rows")
				z := primitives.GroupedMatMul(r, primitives.SwiGLU(primitives.GroupedMatMul(r, rows, gate), primitives.GroupedMatMul(r, rows, up)), down)
				z = primitives.Mul(z, primitives.BroadcastInDim(rw, z.Type.Shape, 0))
				return values{primitives.Add(y, primitives.Combine(r, z))}
			}, y, in("router", h, experts), in("kgate", experts, h, f), in("kup", experts, h, f), in("kdown", experts, f, h))[0]
		}
		loss := primitives.ReduceSum(primitives.Square(y)).Named("loss")
		return append(values{loss}, vjp.Gradients(loss, wrt...)...)
	})
}

// Layers of experts inside Remat have the same bits on every mesh. By policy their
// exchanges are made again in the backward pass or kept.
func TestRematExperts(t *testing.T) {
	want := moe(t, graph.F32, plain)
	in := random(want)
	exchanges := func(p *graph.Program, cfg gomoe.Config) int {
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		return strings.Count(plan.String(), " = all_to_all(")
	}
	policies := map[string]wrap{
		"all": vjp.Remat, "products": keeping(primitives.KeepProducts), "exchanges": keeping(primitives.KeepExchanges),
		"named": keeping(vjp.KeepNamed("rows")), "both": keeping(vjp.KeepAny(primitives.KeepProducts, primitives.KeepExchanges)),
	}
	for _, mesh := range []string{"", "ep=2", "dp=2,ep=2"} {
		for _, overlap := range []lowering.Overlap{lowering.OverlapOff, lowering.OverlapCollectives} {
			cfg := gomoe.Config{Overlap: overlap, Check: true}
			if mesh != "" {
				m, err := sharding.ParseMesh(mesh)
				require.NoError(t, err)
				cfg.Mesh, cfg.Place = m, map[string]sharding.Spec{"x": sharding.Split(map[string]string{"ep=2": "ep", "dp=2,ep=2": "dp.ep"}[mesh])}
				for l := range 2 {
					for _, w := range []string{"kgate", "kup", "kdown"} {
						cfg.Place[fmt.Sprintf("%s%d", w, l)] = sharding.Split("ep")
					}
				}
			}
			for name, w := range policies {
				equalBits(t, fmt.Sprintf("%s on %q, overlap %s", name, mesh, overlap), cfg, moe(t, graph.F32, w), want, in)
			}
			if mesh == "" {
				continue
			}
			// Two exchanges per layer forward, two backward, and the dispatch again.
			plain, all, kept := exchanges(want, cfg), exchanges(moe(t, graph.F32, vjp.Remat), cfg), exchanges(moe(t, graph.F32, policies["exchanges"]), cfg)
			if plain != 8 || all != 10 || kept != 8 {
				t.Errorf("%s, overlap %s: %d exchanges as written, %d computed again, %d kept; want 8, 10, 8", mesh, overlap, plain, all, kept)
			}
		}
	}
}

// Recomputation stands behind the forward pass and is not moved into it: with overlap,
// collectives go up to what makes their arguments, and the weights that are gathered here
// are arguments of the program.
func TestRematIsLate(t *testing.T) {
	m, err := sharding.ParseMesh("dp=2")
	require.NoError(t, err)
	p := trace(t, func(tr *graph.Tracer) values {
		y := tr.Input("x", graph.F32, 8, 16)
		var w values
		for l := range 3 {
			w = append(w, tr.Input(fmt.Sprintf("w%d", l), graph.F32, 16, 16))
			y = vjp.Remat("layer", func(_ *graph.Tracer, a values) values {
				return values{primitives.Tanh(primitives.MatMul(a[0], primitives.ShardingConstraint(a[1])))}
			}, y, w[l])[0]
		}
		loss := primitives.ReduceSum(primitives.Square(y))
		return append(values{loss}, vjp.Gradients(loss, w...)...)
	})
	for _, overlap := range []lowering.Overlap{lowering.OverlapOff, lowering.OverlapCollectives} {
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Overlap: overlap, Check: true, Place: map[string]sharding.Spec{
			"w0": sharding.Split("dp"), "w1": sharding.Split("dp"), "w2": sharding.Split("dp")}})
		require.NoError(t, err)
		before, after, loss := 0, 0, false
		for i := range plan.Instrs {
			in := &plan.Instrs[i]
			if len(in.Out) > 0 && plan.Root(in.Out[0]) == plan.Root(plan.Out[0].Buf) {
				loss = true
			}
			if in.Name() == "all_gather" && loss {
				after++
			} else if in.Name() == "all_gather" {
				before++
			}
		}
		if before != 3 || after < 2 {
			t.Errorf("overlap %s: weights are gathered %d times before the loss and %d times after it, want 3 and at least 2\n%s", overlap, before, after, plan)
		}
	}
}

// Derivatives inside and outside of Remat nest, and are the true ones.
func TestRematNested(t *testing.T) {
	twice := func(name string, fn vjp.Forward, args ...*graph.Value) values {
		return vjp.Remat(name, func(_ *graph.Tracer, x values) values {
			return vjp.RematKeep("inner", vjp.KeepNamed("logits"), fn, x...)
		}, args...)
	}
	want := moe(t, graph.F64, plain)
	for name, w := range map[string]wrap{"nested": twice, "all": vjp.Remat, "rows": keeping(vjp.KeepNamed("rows"))} {
		equalBits(t, name, gomoe.Config{}, moe(t, graph.F64, w), want, random(want))
	}
	// The first derivative as a function whose derivative is checked.
	slope := trace(t, func(tr *graph.Tracer) values {
		x, w := tr.Input("x", graph.F64, 3), tr.Input("w", graph.F64, 3)
		y := vjp.RematKeep("f", vjp.KeepNamed("kept"), func(_ *graph.Tracer, a values) values {
			h := primitives.Tanh(primitives.Mul(a[0], a[1])).Named("kept")
			return values{primitives.Mul(primitives.Sin(h), a[0]), a[1]}
		}, x, w)
		return values{primitives.ReduceSum(primitives.Square(vjp.Gradients(primitives.ReduceSum(primitives.Mul(y[0], y[1])), x)[0]))}
	})
	rep, err := vjp.Check(context.Background(), slope, random(slope), evaluator, vjp.CheckOptions{})
	require.NoError(t, err)
	require.True(t, rep.OK(), rep.String())
}

func TestRematText(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x := tr.Input("x", graph.F64, 2)
		y := vjp.RematKeep("f", vjp.KeepNamed("e"), func(_ *graph.Tracer, a values) values {
			return values{primitives.Sin(primitives.Exp(a[0]).Named("e"))}
		}, x)[0]
		return values{primitives.ReduceSum(y)}
	})
	const want = `program f(x0 f64[2]) {
	e f64[2] = exp(x0)
	v1 f64[2] = sin(e)
	return v1, e
}

program model(x f64[2]) {
	v1 f64[2], v2 f64[2] = remat(x) fn=f keep=1
	v3 f64[] = reduce_sum(v1) axes=[0]
	return v3
}
`
	require.Equal(t, want, p.String())
	q, err := gomoe.Parse("text", want)
	require.NoError(t, err)
	g, err := vjp.Grad(q)
	require.NoError(t, err)
	in := map[string]array.Array{"x": vector(t, 0.5, -1)}
	plain, err := gomoe.Parse("text", "program p(x f64[2]) {\n e = exp(x)\n s = sin(e)\n y = reduce_sum(s) axes=[0]\n return y\n}")
	require.NoError(t, err)
	h, err := vjp.Grad(plain)
	require.NoError(t, err)
	equalBits(t, "text", gomoe.Config{}, g, h, in)

	for keep, want := range map[string]string{"keep=3": "keep=3, want the number of results of f that the gradient keeps, 0 to 2", "": ""} {
		_, err := gomoe.Parse("text", strings.ReplaceAll(p.String(), "keep=1", keep))
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

// A value of the surrounding trace that the function uses is an argument, in the body of a
// loop too, and gets the gradient that it gets as one.
func TestRematUsesOutside(t *testing.T) {
	program := func(given, loop bool) *graph.Program {
		return trace(t, func(tr *graph.Tracer) values {
			x, gain, bias := tr.Input("x", graph.F32, 8), tr.Input("gain", graph.F32, 8), tr.Input("bias", graph.F32, 8)
			layer := func(x *graph.Value) *graph.Value {
				if given {
					return vjp.Remat("f", func(_ *graph.Tracer, a values) values {
						return values{primitives.Add(primitives.Sin(primitives.Mul(a[2], a[1])), a[0])}
					}, bias, gain, x)[0]
				}
				return vjp.Remat("f", func(_ *graph.Tracer, a values) values {
					return values{primitives.Add(primitives.Sin(primitives.Mul(a[0], gain)), bias)}
				}, x)[0]
			}
			y := layer(x)
			if loop {
				c, _ := graph.Scan(graph.ScanParams{Length: 3, Keep: true}, values{x}, nil, func(c, _ []*graph.Value) (values, values) {
					return values{layer(c[0])}, nil
				})
				y = c[0]
			}
			loss := primitives.ReduceSum(primitives.Square(y))
			return append(values{loss}, vjp.Gradients(loss, x, gain, bias)...)
		})
	}
	in := map[string]array.Array{"x": vector(t, 0.5, -1, 2, 0.25, 3, -2, 1, 0), "gain": vector(t, 1, 2, 0.5, -1, 0.75, 1, -0.5, 2), "bias": vector(t, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)}
	for name, a := range in {
		in[name] = a.As(graph.F32)
	}
	for _, loop := range []bool{false, true} {
		equalBits(t, "outside", gomoe.Config{}, program(false, loop), program(true, loop), in)
	}
}

func TestRematMistakes(t *testing.T) {
	for _, c := range []struct {
		want  string
		build func(x *graph.Value)
	}{
		{"remat f has no arguments, want at least one", func(*graph.Value) { vjp.Remat("f", nil) }},
		{"remat f: argument 1 is nil", func(x *graph.Value) { vjp.Remat("f", nil, x, nil) }},
		{"remat f: the function is nil", func(x *graph.Value) { vjp.Remat("f", nil, x) }},
		{"belongs to another trace; pass it as an input", func(x *graph.Value) {
			var y *graph.Value
			_, _ = graph.Trace("q", func(tr *graph.Tracer) []*graph.Value {
				y = tr.Input("y", graph.F32, 2)
				return values{y}
			})
			vjp.Remat("f", func(_ *graph.Tracer, a values) values { return values{primitives.Mul(a[0], y)} }, x)
		}},
		{`program name "a b": want a letter`, func(x *graph.Value) { vjp.Remat("a b", func(_ *graph.Tracer, x values) values { return x }, x) }},
		{"barrier: no values, want at least one", func(*graph.Value) { graph.Barrier() }},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("x", graph.F32, 2)
			c.build(x)
			return values{x}
		})
		require.ErrorContains(t, err, c.want)
	}
}

// Equal equations on both sides of a barrier are not merged, and the barrier takes no
// instruction.
func TestBarrier(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) values {
		x, y := tr.Input("x", graph.F32, 8), tr.Input("y", graph.F32, 8)
		b := graph.Barrier(x, primitives.Sin(y))
		sum := primitives.ReduceSum(primitives.Add(primitives.Exp(x), primitives.Exp(b[0])))
		return append(values{sum, b[1]}, vjp.Gradients(sum, x)...)
	})
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	text := plan.String()
	if n := strings.Count(text, " = exp("); n != 2 || strings.Contains(text, "barrier") {
		t.Errorf("%d exp, want 2, and no instruction for the barrier:\n%s", n, text)
	}
	in := map[string]array.Array{"x": array.New(graph.T(graph.F32, 8)), "y": array.New(graph.T(graph.F32, 8))}
	out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, in)
	require.NoError(t, err)
	require.Equal(t, []float64{16}, out[0].Float64s())
	require.Equal(t, []float64{2, 2, 2, 2, 2, 2, 2, 2}, out[2].Float64s())
}
