package primitives_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// stack returns a program of n layers, all built by the same line, each with a routing
// of its own, over the same tokens. Result i is layer i's.
func stack(t *testing.T, n int, l primitives.PrepareOp) *graph.Program {
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, kernel := tr.Input("x", graph.F32, 12, 4), tr.Input("kernel", graph.F32, l.Experts, 4, 3)
		layer := func(i int) *graph.Value {
			r := primitives.Prepare(l, tr.Input(fmt.Sprintf("idx%d", i), graph.I32, 12, 2))
			return experts(r, x, tr.Input(fmt.Sprintf("w%d", i), graph.F32, 12, 2), kernel)
		}
		var out []*graph.Value
		for i := range n {
			out = append(out, layer(i))
		}
		return out
	})
}

// Eight layers of one line of code never share a routing, forward or backward,
// though they share tokens and experts.
func TestContractEightLayersOfOneLine(t *testing.T) {
	const n = 8
	ps := make([]*problem, n)
	in := arrays{}
	dx, dk := make([]float64, 12*4), make([]float64, 12*4*3)
	var dws [][]float64
	for i := range ps {
		ps[i] = newProblem(rng(100+i), primitives.PrepareOp{Experts: 12, Capacity: 5}, 12, 2)
		ps[i].x, ps[i].kernel = ps[0].x, ps[0].kernel
		a := ps[i].arrays(graph.F32)
		in["x"], in["kernel"] = a["x"], a["kernel"]
		in[fmt.Sprintf("idx%d", i)], in[fmt.Sprintf("w%d", i)], in[fmt.Sprintf("ct_%d", i)] = a["idx"], a["w"], a["ct_0"]
		_, x, w, k := ps[i].dense()
		dws = append(dws, w)
		for j := range x {
			dx[j] += x[j]
		}
		for j := range k {
			dk[j] += k[j]
		}
	}
	for _, s := range meshes() {
		prog := stack(t, n, primitives.PrepareOp{Experts: 12, Capacity: 5, Axis: s.axis, Exchange: s.exchange})
		for i, got := range s.run(t, prog, in) {
			out, _, _, _ := ps[i].dense()
			same(t, fmt.Sprintf("%s: layer %d", s, i), got, out)
		}
		q := pullback(t, prog)
		for i, got := range s.run(t, q, in) {
			switch name := q.Out[i].Name; {
			case name == "grad(x)":
				same(t, name, got, dx)
			case name == "grad(kernel)":
				same(t, name, got, dk)
			default:
				var layer int
				_, err := fmt.Sscanf(name, "grad(w%d)", &layer)
				require.NoError(t, err, name)
				same(t, name, got, dws[layer])
			}
		}
	}
}

// Two layers with equal settings, equal routing and different tokens are not mixed up,
// nor are two dispatches and two combines that use the same routing at once.
func TestContractTwoLayersInFlight(t *testing.T) {
	p := newProblem(rng(1), primitives.PrepareOp{Experts: 12}, 12, 2).route(func(t, k int) int { return (t*2 + k) % 12 })
	other := make([]float64, len(p.x)) // TransformerEngine's second layer: 0.25 - tokens
	for i := range other {
		other[i] = 0.25 - p.x[i]
	}
	eachSpread(t, func(t *testing.T, s spread) {
		l := primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: s.exchange}
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			idx, a, b := tr.Input("idx", graph.I32, 12, 2), tr.Input("x", graph.F32, 12, 4), tr.Input("y", graph.F32, 12, 4)
			ra, rb := primitives.Prepare(l, idx), primitives.Prepare(l, idx)
			da, db := primitives.Dispatch(ra, a), primitives.Dispatch(rb, b)
			db2 := primitives.Dispatch(ra, b) // the first routing again, for other tokens
			ob, oa := primitives.Combine(rb, db), primitives.Combine(ra, da)
			return []*graph.Value{primitives.MulScalar(oa, 0.5), primitives.MulScalar(ob, 0.5), primitives.MulScalar(primitives.Combine(ra, db2), 0.5)}
		})
		in := p.arrays(graph.F32)
		in["y"] = of(graph.T(graph.F32, 12, 4), other)
		out := s.run(t, prog, in)
		same(t, "first layer", out[0], p.x)
		same(t, "second layer", out[1], other)
		same(t, "first routing, second tokens", out[2], other)
	})
}

// Layers with different numbers of experts and choices, alignments and capacities are in
// the same program; the result of one is the tokens of the next.
func TestContractSeveralConfigurations(t *testing.T) {
	configs := []struct {
		l primitives.PrepareOp
		k int
	}{
		{primitives.PrepareOp{Experts: 12}, 2},
		{primitives.PrepareOp{Experts: 6, Align: 16}, 1},
		{primitives.PrepareOp{Experts: 12, Capacity: 2, Align: 4}, 3},
		{primitives.PrepareOp{Experts: 24, Capacity: 3}, 4},
	}
	in := arrays{}
	var probs []*problem
	tokens := newProblem(rng(55), configs[0].l, 12, 1).x
	in["x"] = of(graph.T(graph.F64, 12, 4), tokens)
	for i, c := range configs {
		p := newProblem(rng(60+i), c.l, 12, c.k)
		p.width = 4
		p.kernel = make([]float64, c.l.Experts*16)
		r := rng(70 + i)
		for j := range p.kernel {
			p.kernel[j] = float64(r.IntN(3) - 1)
		}
		p.x, p.g = tokens, make([]float64, 12*4)
		tokens, _, _, _ = p.dense()
		in[fmt.Sprintf("idx%d", i)] = ids(p.idx, 12, c.k)
		in[fmt.Sprintf("w%d", i)] = of(graph.T(graph.F64, 12, c.k), p.w)
		in[fmt.Sprintf("kernel%d", i)] = of(graph.T(graph.F64, c.l.Experts, 4, 4), p.kernel)
		probs = append(probs, p)
	}
	g := newProblem(rng(99), configs[0].l, 12, 1).x
	in["ct_0"] = of(graph.T(graph.F64, 12, 4), g)
	want := map[string][]float64{}
	for i, p := range slices.Backward(probs) {
		p.g = g
		_, dx, dw, dk := p.dense()
		want[fmt.Sprintf("grad(w%d)", i)], want[fmt.Sprintf("grad(kernel%d)", i)] = dw, dk
		g = dx
	}
	want["grad(x)"] = g
	eachSpread(t, func(t *testing.T, s spread) {
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			x := tr.Input("x", graph.F64, 12, 4)
			for i, c := range configs {
				l := c.l
				l.Axis, l.Exchange = s.axis, s.exchange
				r := primitives.Prepare(l, tr.Input(fmt.Sprintf("idx%d", i), graph.I32, 12, c.k))
				x = experts(r, x, tr.Input(fmt.Sprintf("w%d", i), graph.F64, 12, c.k), tr.Input(fmt.Sprintf("kernel%d", i), graph.F64, l.Experts, 4, 4))
			}
			return []*graph.Value{x}
		})
		same(t, "out", s.run(t, prog, in)[0], tokens)
		q := pullback(t, prog)
		out := s.run(t, q, in)
		require.Len(t, out, len(want))
		for i, got := range out {
			same(t, q.Out[i].Name, got, want[q.Out[i].Name])
		}
	})
}

// The forward and the backward pass are two programs. They are interleaved as F_A F_B
// B_A B_B, and as a pipeline runs three microbatches, F0 F1 B0 F2 B1 B2. What is kept
// for the backward pass are values, so no order of steps can mix them up. The
// forward pass returns its routing as a result, and the backward pass takes it
// as an input.
func TestContractInterleavedPrograms(t *testing.T) {
	const k = 2
	eachSpread(t, func(t *testing.T, s spread) {
		l := primitives.PrepareOp{Experts: 12, Capacity: 4, Axis: s.axis, Exchange: s.exchange}
		fwd := trace(t, func(tr *graph.Tracer) []*graph.Value {
			r := primitives.Prepare(l, tr.Input("idx", graph.I32, 12, k))
			out := experts(r, tr.Input("x", graph.F32, 12, 4), tr.Input("w", graph.F32, 12, k), tr.Input("kernel", graph.F32, 12, 4, 3))
			return []*graph.Value{out, r.Value}
		})
		bwd := parse(t, fmt.Sprintf(`program b(x f32[12,4], w f32[12,2], kernel f32[12,4,3], q i32[12,2,2], ct f32[12,3]) {
	rows, rw = ep_dispatch(x, w, q) experts=12 capacity=4 axis="%[1]s"
	dy = ep_dispatch(ct, q) experts=12 capacity=4 axis="%[1]s"
	y = grouped_matmul(rows, kernel, q)
	wide = broadcast_in_dim(rw) shape=[24,3] dims=[0]
	z = mul(dy, wide)
	drows = grouped_matmul(z, kernel, q) transpose=true
	dk = grouped_outer(rows, z, q) experts=12
	prod = mul(dy, y)
	drw = reduce_sum(prod) axes=[1]
	dx, dw = ep_combine(drows, drw, q) experts=12 capacity=4 axis="%[1]s"
	return dx, dw, dk
}`, s.axisName()))
		jobs := [][2]*gomoe.Job{{s.open(t, fwd), s.open(t, bwd)}, {s.open(t, fwd), s.open(t, bwd)}}
		var ps []*problem
		routings := map[int]array.Array{}
		for i := range 4 {
			ps = append(ps, newProblem(rng(200+i), l, 12, k))
		}
		forward := func(job, mb int) {
			got := step(t, jobs[job][0], fwd, ps[mb].arrays(graph.F32))
			out, _, _, _ := ps[mb].dense()
			same(t, fmt.Sprintf("F%d", mb), got[0], out)
			routings[mb] = got[1]
		}
		backward := func(job, mb int) {
			in := ps[mb].arrays(graph.F32)
			in["q"], in["ct"] = routings[mb], in["ct_0"]
			got := step(t, jobs[job][1], bwd, in)
			_, dx, dw, dk := ps[mb].dense()
			same(t, fmt.Sprintf("B%d tokens", mb), got[0], dx)
			same(t, fmt.Sprintf("B%d weights", mb), got[1], dw)
			same(t, fmt.Sprintf("B%d experts", mb), got[2], dk)
		}
		forward(0, 0) // F_A F_B B_A B_B
		forward(1, 1)
		backward(0, 0)
		backward(1, 1)
		forward(0, 0) // F0 F1 B0 F2 B1 B2 on one pair of sessions
		forward(0, 1)
		backward(0, 0)
		forward(0, 2)
		backward(0, 1)
		backward(0, 2)
		forward(0, 3) // two forwards, backwards in the other order
		forward(0, 0)
		backward(0, 0)
		backward(0, 3)
	})
}

func parse(t *testing.T, src string) *graph.Program {
	t.Helper()
	p, err := gomoe.Parse("b.graph", src)
	require.NoError(t, err)
	return p
}

// Two microbatches in one program, both forward before either goes backward.
func TestContractMicrobatchesAsValues(t *testing.T) {
	p, q := newProblem(rng(31), primitives.PrepareOp{Experts: 12}, 12, 2), newProblem(rng(32), primitives.PrepareOp{Experts: 12}, 12, 2)
	eachSpread(t, func(t *testing.T, s spread) {
		prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
			kernel := tr.Input("kernel", graph.F32, 12, 4, 3)
			var outs, cts, wrt []*graph.Value
			for i := range 2 {
				name := func(n string) string { return fmt.Sprintf("%s%d", n, i) }
				r := primitives.Prepare(primitives.PrepareOp{Experts: 12, Axis: s.axis, Exchange: s.exchange}, tr.Input(name("idx"), graph.I32, 12, 2))
				x := tr.Input(name("x"), graph.F32, 12, 4)
				outs = append(outs, experts(r, x, tr.Input(name("w"), graph.F32, 12, 2), kernel))
				cts, wrt = append(cts, tr.Input(name("ct"), graph.F32, 12, 3)), append(wrt, x)
			}
			first := vjp.Backward(outs[:1], cts[:1], []*graph.Value{wrt[0], kernel})
			second := vjp.Backward(outs[1:], cts[1:], []*graph.Value{wrt[1], kernel})
			return slices.Concat(outs, first, second)
		})
		in := arrays{}
		var want [6][]float64
		for i, m := range []*problem{p, q} {
			m.kernel = p.kernel
			a := m.arrays(graph.F32)
			in["kernel"] = a["kernel"]
			for to, from := range map[string]string{"idx": "idx", "x": "x", "w": "w", "ct": "ct_0"} {
				in[fmt.Sprintf("%s%d", to, i)] = a[from]
			}
			out, dx, _, dk := m.dense()
			want[i], want[2+2*i], want[3+2*i] = out, dx, dk
		}
		for i, got := range s.run(t, prog, in) {
			same(t, fmt.Sprintf("result %d", i), got, want[i])
		}
	})
}
