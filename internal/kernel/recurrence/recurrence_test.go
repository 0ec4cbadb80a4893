package recurrence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/kernel"
)

// plain computes rows by the formulas, one after another, and with dout their cotangents.
func plain(h Head, n int, in In[float64], state, dout, dstate []float64, grads In[float64]) (out []float64) {
	at := func(s []float64, i, j int) *float64 { return &s[i*h.V+j] }
	decay := func(t, i int) float64 { return math.Exp(in.Decays.Row(t, h.Decays())[i%h.Decays()]) }
	out = make([]float64, n*h.V)
	before, after, us, rests := make([][]float64, n), make([][]float64, n), make([][]float64, n), make([][]float64, n)
	s := append([]float64{}, state...)
	for t := range n {
		q, k, v := in.Queries.Row(t, h.K), in.Keys.Row(t, h.K), in.Values.Row(t, h.V)
		for i := range h.K {
			for j := range h.V {
				*at(s, i, j) *= decay(t, i)
			}
		}
		before[t] = append([]float64{}, s...)
		u, rest := make([]float64, h.V), make([]float64, h.V)
		for j := range h.V {
			rest[j] = v[j]
			u[j] = v[j]
			if h.Delta {
				for i := range h.K {
					rest[j] -= *at(s, i, j) * k[i]
				}
				u[j] = rest[j] * in.Rates.Row(t, 1)[0]
			}
		}
		us[t], rests[t] = u, rest
		for i := range h.K {
			for j := range h.V {
				*at(s, i, j) += k[i] * u[j]
				out[t*h.V+j] += *at(s, i, j) * q[i]
			}
		}
		after[t] = append([]float64{}, s...)
	}
	if dout == nil {
		copy(state, s)
		return out
	}
	for t := n - 1; t >= 0; t-- {
		q, k := in.Queries.Row(t, h.K), in.Keys.Row(t, h.K)
		du := make([]float64, h.V)
		for i := range h.K {
			for j := range h.V {
				grads.Queries.Row(t, h.K)[i] += *at(after[t], i, j) * dout[t*h.V+j]
				*at(dstate, i, j) += q[i] * dout[t*h.V+j]
				du[j] += *at(dstate, i, j) * k[i]
				grads.Keys.Row(t, h.K)[i] += *at(dstate, i, j) * us[t][j]
			}
		}
		for j := range h.V {
			if h.Delta {
				grads.Rates.Row(t, 1)[0] += du[j] * rests[t][j]
				du[j] *= in.Rates.Row(t, 1)[0]
				for i := range h.K {
					*at(dstate, i, j) -= k[i] * du[j]
					grads.Keys.Row(t, h.K)[i] -= *at(before[t], i, j) * du[j]
				}
			}
			grads.Values.Row(t, h.V)[j] = du[j]
		}
		for i := range h.K {
			for j := range h.V {
				grads.Decays.Row(t, h.Decays())[i%h.Decays()] += *at(dstate, i, j) * *at(before[t], i, j)
				*at(dstate, i, j) *= decay(t, i)
			}
		}
	}
	return out
}

type random struct{ *rand.Rand }

func (r random) rows(n, width, stride int, lo, hi float64) kernel.Rows[float64] {
	x := make([]float64, n*stride+width)
	for i := range x {
		x[i] = lo + (hi-lo)*r.Float64()
	}
	return kernel.Rows[float64]{X: x, Stride: stride}
}

func (r random) in(h Head, n int, least float64) In[float64] {
	return In[float64]{r.rows(n, h.K, h.K+3, -1, 1), r.rows(n, h.K, 2*h.K, -1/math.Sqrt(float64(h.K)), 1/math.Sqrt(float64(h.K))),
		r.rows(n, h.V, h.V+1, -1, 1), r.rows(n, h.Decays(), h.Decays(), least, 0), r.rows(n, 1, 2, 0, 1)}
}

func narrow[T float32 | float64](x kernel.Rows[float64]) kernel.Rows[T] {
	y := make([]T, len(x.X))
	for i, v := range x.X {
		y[i] = T(v)
	}
	return kernel.Rows[T]{X: y, Stride: x.Stride}
}

func narrowIn[T float32 | float64](x In[float64]) In[T] {
	return In[T]{narrow[T](x.Queries), narrow[T](x.Keys), narrow[T](x.Values), narrow[T](x.Decays), narrow[T](x.Rates)}
}

func near[T float32 | float64](t *testing.T, name string, got []T, want []float64, tolerance float64) {
	t.Helper()
	most := 1e-3
	for _, w := range want {
		most = max(most, math.Abs(w))
	}
	for i, w := range want[:len(got)] {
		if !(math.Abs(float64(got[i])-w) <= tolerance*most) {
			t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], w)
		}
	}
}

func check[T float32 | float64](t *testing.T, h Head, n int, least, tolerance float64) {
	r := random{rand.New(rand.NewPCG(uint64(n), 3))}
	in := r.in(h, n, least)
	state, dout, dstate := r.rows(h.K, h.V, h.V, -1, 1).X[:h.K*h.V], r.rows(n, h.V, h.V, -1, 1), r.rows(h.K, h.V, h.V, -1, 1).X[:h.K*h.V]
	s := narrow[T](kernel.Rows[float64]{X: state}).X
	out, room := kernel.Rows[T]{X: make([]T, n*(h.V+2)), Stride: h.V + 2}, make([]T, h.Scratch())
	Forward(h, n, narrowIn[T](in), s, out, room)
	last := append([]float64{}, state...)
	want := plain(h, n, in, last, nil, nil, In[float64]{})
	near(t, "out", tight(out, n, h.V), want, tolerance)
	near(t, "state", s, last, tolerance)

	zero := func(width int) kernel.Rows[float64] {
		return kernel.Rows[float64]{X: make([]float64, n*width), Stride: width}
	}
	grads := In[float64]{zero(h.K), zero(h.K), zero(h.V), zero(h.Decays()), zero(1)}
	ds := narrow[T](kernel.Rows[float64]{X: dstate}).X
	got := narrowIn[T](grads)
	room = make([]T, h.GradScratch(n))
	Backward(h, n, narrowIn[T](in), narrow[T](kernel.Rows[float64]{X: state}).X, narrow[T](dout), ds, got, room)
	plain(h, n, in, state, dout.X, dstate, grads)
	near(t, "dstate", ds, dstate, tolerance)
	near(t, "dq", got.Queries.X, grads.Queries.X, tolerance)
	near(t, "dk", got.Keys.X, grads.Keys.X, tolerance)
	near(t, "dv", got.Values.X, grads.Values.X, tolerance)
	near(t, "ddecay", got.Decays.X, append(grads.Decays.X, 1), tolerance) // beside sums of about 1
	if h.Delta {
		near(t, "drate", got.Rates.X, grads.Rates.X, tolerance)
	}
}

// tight returns n rows one after another.
func tight[T float32 | float64](x kernel.Rows[T], n, width int) (all []T) {
	for i := range n {
		all = append(all, x.X[i*x.Stride:][:width]...)
	}
	return all
}

// Blocks and rows have the results and derivatives of plain loops, for every kind of recurrence, at the
// borders of blocks, and with decays so large that their exponents would overflow.
func TestAgainstLoops(t *testing.T) {
	for _, h := range []Head{{8, 8, false, false}, {8, 5, false, true}, {5, 16, true, true}, {16, 3, true, false}, {1, 1, true, true}, {64, 48, false, true}} {
		for _, n := range []int{0, 1, 3, 5, 15, 16, 17, 33, 64, 65, 130} {
			for _, least := range []float64{-0.1, -200} {
				t.Run(fmt.Sprint(h, n, least), func(t *testing.T) {
					check[float64](t, h, n, least, 1e-12)
					check[float32](t, h, n, least, 2e-5)
				})
			}
		}
	}
}

// A sequence cut anywhere has the results of a whole one, bit for bit.
func TestCut(t *testing.T) {
	h, n := Head{16, 16, false, true}, 150
	in := random{rand.New(rand.NewPCG(5, 3))}.in(h, n, -0.2)
	room := make([]float64, h.Scratch())
	whole, state := kernel.Rows[float64]{X: make([]float64, n*h.V), Stride: h.V}, make([]float64, h.K*h.V)
	Forward(h, n, in, state, whole, room)
	for _, cut := range []int{1, 4, 5, 64, 149} {
		out, s := kernel.Rows[float64]{X: make([]float64, n*h.V), Stride: h.V}, make([]float64, h.K*h.V)
		Forward(h, cut, in, s, out, room)
		Forward(h, n-cut, in.from(cut), s, out.From(cut), room)
		require.Equal(t, whole.X, out.X, "cut at %d", cut)
		require.Equal(t, state, s)
	}
	require.NotZero(t, state[0])
}

// Blocks and rows allocate nothing.
func TestAllocates(t *testing.T) {
	for _, h := range []Head{{16, 16, false, true}, {16, 16, true, true}, {16, 8, false, false}} {
		n := 70
		r := random{rand.New(rand.NewPCG(5, 3))}
		in, grads, dout := narrowIn[float32](r.in(h, n, -0.2)), narrowIn[float32](r.in(h, n, -1)), narrow[float32](r.rows(n, h.V, h.V, -1, 1))
		out, room := narrow[float32](r.rows(n, h.V, h.V, -1, 1)), make([]float32, h.GradScratch(n))
		s, ds := make([]float32, h.K*h.V), make([]float32, h.K*h.V)
		if got := testing.AllocsPerRun(3, func() {
			Forward(h, 1, in, s, out, room)
			Forward(h, n, in, s, out, room)
			Backward(h, n, in, s, dout, ds, grads, room)
		}); got > 0 {
			t.Errorf("%v: %v allocations", h, got)
		}
	}
}

func BenchmarkForward(b *testing.B) {
	for _, h := range []Head{{128, 128, false, true}, {128, 128, true, true}, {128, 64, false, false}} {
		for _, n := range []int{1, 512} {
			b.Run(fmt.Sprint(h, n), func(b *testing.B) {
				in := narrowIn[float32](random{rand.New(rand.NewPCG(5, 3))}.in(h, n, -0.2))
				room, out, s := make([]float32, h.Scratch()), kernel.Rows[float32]{X: make([]float32, n*h.V), Stride: h.V}, make([]float32, h.K*h.V)
				for b.Loop() {
					Forward(h, n, in, s, out, room)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
			})
		}
	}
}

func BenchmarkBackward(b *testing.B) {
	for _, h := range []Head{{128, 128, false, true}, {128, 128, true, true}} {
		n := 512
		b.Run(fmt.Sprint(h, n), func(b *testing.B) {
			r := random{rand.New(rand.NewPCG(5, 3))}
			in, dout := narrowIn[float32](r.in(h, n, -0.2)), narrow[float32](r.rows(n, h.V, h.V, -1, 1))
			grads := narrowIn[float32](r.in(h, n, -1))
			room, s, ds := make([]float32, h.GradScratch(n)), make([]float32, h.K*h.V), make([]float32, h.K*h.V)
			for b.Loop() {
				Backward(h, n, in, s, dout, ds, grads, room)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
		})
	}
}
