package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// kit is attention of one head with its arguments, all rows one behind another.
type kit[T kernel.Float] struct {
	Attention[T]
	q, k, v, dout, dlse []T
	bias, sinks         []T
}

func (c kit[T]) terms() Terms[T] { return Terms[T]{kernel.Rows[T]{X: c.bias, Stride: c.R}, c.sinks, 1} }

func rowsOf[T kernel.Float](x []T, d int) kernel.Rows[T] { return kernel.Rows[T]{X: x, Stride: d} }

func kitOf[T kernel.Float](a Attention[T], bias, sinks bool, seed uint64) kit[T] {
	r := rand.New(rand.NewPCG(seed, 5))
	normals := func(n int) []T {
		x := make([]T, n)
		for i := range x {
			x[i] = T(r.NormFloat64())
		}
		return x
	}
	c := kit[T]{Attention: a, q: normals(a.S * a.D), k: normals(a.R * a.D), v: normals(a.R * a.V), dout: normals(a.S * a.V), dlse: normals(a.S)}
	if bias {
		c.bias = normals(a.S * a.R)
	}
	if sinks {
		c.sinks = normals(a.S)
	}
	return c
}

// options are all pairs of what an attention can have.
func options() []func(a *Attention[float64]) (bias, sinks bool) {
	single := []func(a *Attention[float64]) (bool, bool){
		func(*Attention[float64]) (bool, bool) { return false, false },
		func(a *Attention[float64]) (bool, bool) { a.Causal, a.At = true, a.R-a.S; return false, false },
		func(a *Attention[float64]) (bool, bool) { a.Causal, a.At = true, 3; return false, false },
		func(a *Attention[float64]) (bool, bool) { a.Causal, a.At = true, -5; return false, false },
		func(a *Attention[float64]) (bool, bool) {
			a.Causal, a.At, a.Window = true, a.R-a.S, 9
			return false, false
		},
		func(a *Attention[float64]) (bool, bool) { a.Cap = 1.5; return false, false },
		func(a *Attention[float64]) (bool, bool) { a.V = 7; return false, false },
		func(a *Attention[float64]) (bool, bool) { a.From = 70; return false, false },
		func(*Attention[float64]) (bool, bool) { return true, false },
		func(*Attention[float64]) (bool, bool) { return false, true },
	}
	var all []func(a *Attention[float64]) (bool, bool)
	for i, f := range single {
		for _, g := range single[i:] {
			all = append(all, func(a *Attention[float64]) (bool, bool) {
				b1, s1 := f(a)
				b2, s2 := g(a)
				return b1 || b2, s1 || s2
			})
		}
	}
	return all
}

// plain is the formula, in float64.
func plain[T kernel.Float](c kit[T]) (out, lse []float64) {
	out, lse = make([]float64, c.S*c.V), make([]float64, c.S)
	for i := range c.S {
		var p []float64
		total := 0.0
		if c.sinks != nil {
			total = math.Exp(float64(c.sinks[i]))
		}
		for j := range c.R {
			s := 0.0
			for x := range c.D {
				s += float64(c.q[i*c.D+x]) * float64(c.k[j*c.D+x])
			}
			s *= float64(c.Scale)
			if c.Cap != 0 {
				s = float64(c.Cap) * math.Tanh(s/float64(c.Cap))
			}
			if c.bias != nil {
				s += float64(c.bias[i*c.R+j])
			}
			at := c.At + i
			if j < c.From || c.Causal && j > at || c.Window > 0 && j <= at-c.Window {
				s = math.Inf(-1)
			}
			p = append(p, math.Exp(s))
			total += p[j]
		}
		lse[i] = math.Log(total)
		for j := range p {
			for x := 0; x < c.V && p[j] > 0; x++ {
				out[i*c.V+x] += p[j] / total * float64(c.v[j*c.V+x])
			}
		}
	}
	return out, lse
}

func (c kit[T]) run(vec kernel.Kind) (out, lse []T) {
	out, lse = make([]T, c.S*c.V), make([]T, c.S)
	w := c.attend(nil, vec, rowsOf(c.k, c.D), rowsOf(c.v, c.V))
	defer w.Release()
	w.Forward(rowsOf(c.q, c.D), rowsOf(out, c.V), lse, c.terms(), 0, c.S)
	return out, lse
}

func (c kit[T]) gradients(vec kernel.Kind) (dq, dk, dv []T) {
	out, lse := c.run(vec)
	dq, dk, dv = make([]T, len(c.q)), make([]T, len(c.k)), make([]T, len(c.v))
	for p := range c.Parts() {
		from, to := c.Part(p)
		w := c.attend(nil, vec, rowsOf(c.k, c.D), rowsOf(c.v, c.V))
		w.Backward(rowsOf(c.q, c.D), rowsOf(out, c.V), lse, rowsOf(c.dout, c.V), c.dlse, rowsOf(dq, c.D), rowsOf(c.bias, c.R), from, to)
		w.AddTo(rowsOf(dk, c.D), rowsOf(dv, c.V), p == 0)
		w.Release()
	}
	return dq, dk, dv
}

// near64 compares, where -Inf equals -Inf.
func near64[T kernel.Float](t *testing.T, what string, got []T, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if float64(got[i]) == want[i] {
			continue
		}
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func narrowed(c kit[float64]) kit[float32] {
	down := func(x []float64) []float32 {
		if x == nil {
			return nil
		}
		y := make([]float32, len(x))
		for i := range x {
			y[i] = float32(x[i])
		}
		return y
	}
	return kit[float32]{Attention[float32]{c.S, c.R, c.D, c.V, float32(c.Scale), c.Causal, c.At, c.Window, c.From, float32(c.Cap)},
		down(c.q), down(c.k), down(c.v), down(c.dout), down(c.dlse), down(c.bias), down(c.sinks)}
}

// Every pair of options gives the formula's result, of queries and keys around the sizes of
// blocks.
func TestAttentionOptions(t *testing.T) {
	for n, option := range options() {
		for _, size := range [][2]int{{1, 1}, {1, 100}, {5, 3}, {20, 131}, {100, 100}, {3, 0}, {0, 4}, {197, 260}} {
			a := Attention[float64]{S: size[0], R: size[1], D: 5, V: 5, Scale: 0.7}
			bias, sinks := option(&a)
			c := kitOf(a, bias, sinks, uint64(n))
			what := fmt.Sprintf("%+v bias=%v sinks=%v", a, bias, sinks)
			wantOut, wantLSE := plain(c)
			out, lse := c.run(kernel.Portable)
			near64(t, what+" out", out, wantOut, 1e-12)
			near64(t, what+" lse", lse, wantLSE, 1e-12)
			for _, vec := range attentionVectors() {
				out, lse := narrowed(c).run(vec)
				near64(t, fmt.Sprint(what, vec, " out"), out, wantOut, 2e-5)
				near64(t, fmt.Sprint(what, vec, " lse"), lse, wantLSE, 2e-5)
			}
		}
	}
}

// Gradients of every pair of options are those of finite differences, and all kernels have
// about the same.
func TestAttentionOptionsBackward(t *testing.T) {
	for n, option := range options() {
		for _, size := range [][2]int{{4, 6}, {6, 4}, {2, 80}, {100, 150}, {230, 201}} {
			a := Attention[float64]{S: size[0], R: size[1], D: 3, V: 3, Scale: 0.7}
			bias, sinks := option(&a)
			c := kitOf(a, bias, sinks, uint64(n))
			what := fmt.Sprintf("%+v bias=%v sinks=%v", a, bias, sinks)
			dq, dk, dv := c.gradients(kernel.Portable)
			if a.S*a.R < 50 {
				for _, x := range []struct {
					name    string
					at, got []float64
				}{{"dq", c.q, dq}, {"dk", c.k, dk}, {"dv", c.v, dv}} {
					at := append([]float64(nil), x.at...)
					want := fd.Gradient(nil, func(y []float64) float64 {
						copy(x.at, y)
						out, lse := c.run(kernel.Portable)
						sum := 0.0
						for i, o := range out {
							sum += o * c.dout[i]
						}
						for i, l := range lse {
							if !math.IsInf(l, -1) {
								sum += l * c.dlse[i]
							}
						}
						return sum
					}, at, &fd.Settings{Formula: fd.Central})
					copy(x.at, at)
					near64(t, what+" "+x.name, x.got, want, 1e-7)
				}
			}
			for _, vec := range attentionVectors() {
				q, k, v := narrowed(c).gradients(vec)
				near64(t, fmt.Sprint(what, vec, " dq"), q, dq, 5e-5)
				near64(t, fmt.Sprint(what, vec, " dk"), k, dk, 5e-5)
				near64(t, fmt.Sprint(what, vec, " dv"), v, dv, 5e-5)
			}
		}
	}
}

// Queries that come one by one, each with the keys up to its own, get the bits of queries
// that come together, and nothing behind a query's keys is read.
func TestAttentionStepByStep(t *testing.T) {
	for _, vec := range attentionVectors() {
		for _, c := range []struct {
			s, window int
			cap       float32
			sinks     bool
		}{{300, 0, 0, false}, {300, 40, 0, true}, {200, 130, 2, true}} {
			whole := narrowed(kitOf(Attention[float64]{S: c.s, R: c.s, D: 20, V: 17, Scale: 0.3, Causal: true, Window: c.window, Cap: float64(c.cap)}, false, c.sinks, 9))
			if c.sinks {
				for i := range whole.sinks {
					whole.sinks[i] = 0.5
				}
			}
			out, lse := whole.run(vec)
			for i := range c.s {
				one := whole
				one.S, one.R, one.At = 1, i+1, i
				one.q, one.k, one.v = one.q[i*20:][:20], one.k[:(i+1)*20], one.v[:(i+1)*17]
				o, l := one.run(vec)
				numbers.SameBits(t, fmt.Sprintf("%v %+v: out of query %d", vec, c, i), o, out[i*17:][:17])
				numbers.SameBits(t, fmt.Sprintf("%v %+v: lse of query %d", vec, c, i), l, lse[i:i+1])
			}
		}
	}
}

// Values of NaN, before a window and behind a query, do not reach queries that do not attend
// to them.
func TestAttentionOddValuesInWindow(t *testing.T) {
	for _, vec := range attentionVectors() {
		c := narrowed(kitOf(Attention[float64]{S: 210, R: 230, D: 4, V: 6, Scale: 0.5, Causal: true, At: 20, Window: 30}, false, false, 3))
		want, _ := c.run(vec)
		odd := []int{0, 31, 40, 41, 100, 191, 192, 229}
		for _, j := range odd {
			c.v[j*6+2] = float32(math.NaN())
		}
		got, _ := c.run(vec)
		for i := range c.S {
			sees := false
			for _, j := range odd {
				sees = sees || j <= c.At+i && j > c.At+i-c.Window
			}
			if x := got[i*6+2]; sees != (x != x) {
				t.Fatalf("%v: query %d has %v, and attends to NaN: %v", vec, i, x, sees)
			}
			got[i*6+2] = want[i*6+2]
			numbers.SameBits(t, fmt.Sprintf("%v: query %d", vec, i), got[i*6:][:6], want[i*6:][:6])
		}
	}
}

// Keys and values in other element types are as the same widened before.
func TestAttentionStored(t *testing.T) {
	c := narrowed(kitOf(Attention[float64]{S: 3, R: 210, D: 64, V: 32, Scale: 0.2, Causal: true, At: 207}, false, false, 4))
	for _, d := range []graph.DType{graph.BF16, graph.F16, graph.Q8_0} {
		k, v := array.New(graph.T(d, c.R, 2, 64)), array.New(graph.T(d, c.R, 32)) // keys of the second of two heads
		both := make([]float64, 0, c.R*128)
		for j := range c.R {
			both = append(both, make([]float64, 64)...)
			for _, x := range c.k[j*64:][:64] {
				both = append(both, float64(x))
			}
		}
		wide := make([]float64, len(c.v))
		for i, x := range c.v {
			wide[i] = float64(x)
		}
		if err := k.SetFloat64s(both); err != nil {
			t.Fatal(err)
		}
		if err := v.SetFloat64s(wide); err != nil {
			t.Fatal(err)
		}
		w := c
		w.k, w.v = make([]float32, len(c.k)), make([]float32, len(c.v))
		for j, x := range k.Float64s() {
			if j/64%2 == 1 {
				w.k[j/128*64+j%64] = float32(x)
			}
		}
		for j, x := range v.Float64s() {
			w.v[j] = float32(x)
		}
		want, _ := w.run(kernel.VectorsOf[float32]())
		for _, vec := range attentionVectors() {
			out, lse := make([]float32, len(want)), make([]float32, c.S)
			h := c.attend(nil, vec, kernel.Rows[float32]{}, kernel.Rows[float32]{})
			h.kept = [2]Stored{{k, 64, 128}, {v, 0, 32}}
			h.Forward(rowsOf(c.q, 64), rowsOf(out, 32), lse, Terms[float32]{}, 0, c.S)
			h.Release()
			if vec == kernel.VectorsOf[float32]() {
				numbers.SameBits(t, d.String(), out, want)
			}
			near(t, fmt.Sprint(d, vec), out, wideOf(want), 1e-5)
		}
	}
}

func wideOf(x []float32) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = float64(x[i])
	}
	return y
}
