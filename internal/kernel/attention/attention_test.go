package attention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// attention is a problem of b sequences with n query heads and m key heads.
type attention struct {
	b, s, n, m, d int
	causal        bool
}

func (a attention) String() string {
	return fmt.Sprintf("B=%d S=%d N=%d M=%d D=%d causal=%v", a.b, a.s, a.n, a.m, a.d, a.causal)
}

func head[T kernel.Float](a attention) Attention[T] {
	return Attention[T]{S: a.s, R: a.s, D: a.d, V: a.d, Scale: T(1 / math.Sqrt(float64(a.d))), Causal: a.causal}
}

func forward[T kernel.Float](a attention, q, k, v []T) (out, lse []T) {
	out, lse = make([]T, len(q)), make([]T, a.b*a.n*a.s)
	for b := range a.b {
		for n := range a.n {
			g := n / (a.n / a.m)
			head[T](a).Forward(kernel.HeadOf(q, b, n, a.s, a.n, a.d), kernel.HeadOf(k, b, g, a.s, a.m, a.d), kernel.HeadOf(v, b, g, a.s, a.m, a.d),
				kernel.HeadOf(out, b, n, a.s, a.n, a.d), lse[(b*a.n+n)*a.s:], Terms[T]{})
		}
	}
	return out, lse
}

func backward[T kernel.Float](a attention, q, k, v, out, lse, dout, dlse []T) (dq, dk, dv []T) {
	dq, dk, dv = make([]T, len(q)), make([]T, len(k)), make([]T, len(v))
	for _, x := range [][]T{dq, dk, dv} {
		for i := range x {
			x[i] = T(math.NaN()) // is set, not added to
		}
	}
	for b := range a.b {
		for n := range a.n {
			g, at := n/(a.n/a.m), dlse
			if dlse != nil {
				at = dlse[(b*a.n+n)*a.s:]
			}
			head[T](a).Backward(kernel.HeadOf(q, b, n, a.s, a.n, a.d), kernel.HeadOf(k, b, g, a.s, a.m, a.d), kernel.HeadOf(v, b, g, a.s, a.m, a.d),
				kernel.HeadOf(out, b, n, a.s, a.n, a.d), lse[(b*a.n+n)*a.s:], kernel.HeadOf(dout, b, n, a.s, a.n, a.d), at,
				kernel.HeadOf(dq, b, n, a.s, a.n, a.d), kernel.HeadOf(dk, b, g, a.s, a.m, a.d), kernel.HeadOf(dv, b, g, a.s, a.m, a.d), kernel.Rows[T]{}, n%(a.n/a.m) == 0)
		}
	}
	return dq, dk, dv
}

// attentionRef is the formula, in float64, with all scores of a row at once.
func attentionRef[T kernel.Float](a attention, q, k, v []T) (out, lse []float64) {
	out, lse = make([]float64, len(q)), make([]float64, a.b*a.n*a.s)
	for b := range a.b {
		for n := range a.n {
			g := n / (a.n / a.m)
			for i := range a.s {
				keys := a.s
				if a.causal {
					keys = i + 1
				}
				p, total, o := make([]float64, keys), 0.0, ((b*a.s+i)*a.n+n)*a.d
				for j := range p {
					for x := range a.d {
						p[j] += float64(q[o+x]) * float64(k[((b*a.s+j)*a.m+g)*a.d+x])
					}
					p[j] = math.Exp(p[j] / math.Sqrt(float64(a.d)))
					total += p[j]
				}
				for j := range p {
					for x := range a.d {
						out[o+x] += p[j] / total * float64(v[((b*a.s+j)*a.m+g)*a.d+x])
					}
				}
				lse[(b*a.n+n)*a.s+i] = math.Log(total)
			}
		}
	}
	return out, lse
}

func problem[T kernel.Float](a attention) (q, k, v, dout []T) {
	r := rand.New(rand.NewPCG(11, uint64(a.s)))
	return numbers.Normals[T](r, a.b*a.s*a.n*a.d), numbers.Normals[T](r, a.b*a.s*a.m*a.d), numbers.Normals[T](r, a.b*a.s*a.m*a.d), numbers.Normals[T](r, a.b*a.s*a.n*a.d)
}

func near[T kernel.Float](t *testing.T, what string, got []T, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tolerance*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

var attentions = []attention{
	{2, 0, 2, 1, 4, true}, {1, 1, 1, 1, 1, true}, {2, 1, 4, 2, 3, false}, {1, 5, 2, 2, 1, true}, {2, 9, 4, 2, 8, true},
	{1, 64, 2, 1, 16, true}, {1, 65, 2, 1, 16, true}, {2, 130, 4, 2, 8, true}, {2, 130, 4, 2, 8, false}, {1, 64, 1, 1, 5, false}, {1, 70, 1, 1, 300, true},
}

func TestAttentionForward(t *testing.T) {
	for _, a := range attentions {
		q, k, v, _ := problem[float64](a)
		out, lse := forward(a, q, k, v)
		wantOut, wantLSE := attentionRef(a, q, k, v)
		near(t, a.String()+" out", out, wantOut, 1e-13)
		near(t, a.String()+" lse", lse, wantLSE, 1e-13)
		q32, k32, v32, _ := problem[float32](a)
		out32, lse32 := forward(a, q32, k32, v32)
		wantOut, wantLSE = attentionRef(a, q32, k32, v32)
		near(t, a.String()+" out f32", out32, wantOut, 4e-6)
		near(t, a.String()+" lse f32", lse32, wantLSE, 4e-6)
	}
}

// Large scores neither overflow nor vanish, and scores of -Inf count for nothing.
func TestAttentionExtremes(t *testing.T) {
	a := attention{1, 130, 1, 1, 1, false}
	q, k, v := make([]float32, a.s), make([]float32, a.s), make([]float32, a.s)
	for i := range a.s {
		q[i], k[i], v[i] = 1, float32(200*i), float32(i)
	}
	out, lse := forward(a, q, k, v)
	if out[0] != 129 || lse[0] != 129*200 {
		t.Errorf("out is %v and lse %v, want 129 and 25800", out[0], lse[0])
	}
	for i := range 100 { // the whole first block, and part of the second
		k[i] = float32(math.Inf(-1))
	}
	if out, _ = forward(a, q, k, v); out[0] != 129 {
		t.Errorf("out is %v behind keys of -Inf, want 129", out[0])
	}
	for i := range k {
		k[i] = float32(math.Inf(-1))
	}
	if out, _ = forward(a, q, k, v); out[0] != 0 {
		t.Errorf("out is %v without keys, want 0", out[0])
	}
}

// attentionVectors returns the kinds of kernels that do attention here.
func attentionVectors() []kernel.Kind { return append(numbers.Vectors(), kernel.Portable) }

// allOf runs Forward and Backward for one head with the kernels vec, Backward part by part
// with an Attender for each.
func allOf(vec kernel.Kind, h Attention[float32], q, k, v, dout, dlse []float32) (out, lse, dq, dk, dv []float32) {
	n := len(q)
	out, lse, dq, dk, dv = make([]float32, n), make([]float32, h.S), make([]float32, n), make([]float32, n), make([]float32, n)
	of := func(x []float32) kernel.Rows[float32] { return kernel.Rows[float32]{X: x, Stride: h.D} }
	w := h.attend(nil, vec, of(k), of(v))
	w.Forward(of(q), of(out), lse, Terms[float32]{}, 0, h.S)
	w.Release()
	for p := range h.Parts() {
		from, to := h.Part(p)
		w := h.attend(nil, vec, of(k), of(v))
		w.Backward(of(q), of(out), lse, of(dout), dlse, of(dq), kernel.Rows[float32]{}, from, to)
		w.AddTo(of(dk), of(dv), p == 0)
		w.Release()
	}
	return out, lse, dq, dk, dv
}

// TestAttentionVectors takes numbers of queries around those of blocks and parts. Kernels
// over vectors agree to the bit; the loops in Go take blocks of another size.
func TestAttentionVectors(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	sizes := []int{1, 2, 15, 16, 17, 31, 33, 47, 48, 49, 65, 95, 96, 97, 100, 144, 145, 191, 192, 193, 300, 384, 400, 577, 1000}
	for i, s := range sizes {
		for _, causal := range []bool{true, false} {
			d := []int{64, 5, 16, 40, 1, 24, 128, 33}[i%8]
			h := Attention[float32]{S: s, R: s, D: d, V: d, Scale: 0.2, Causal: causal}
			q, k, v, dout := numbers.Normals[float32](r, s*d), numbers.Normals[float32](r, s*d), numbers.Normals[float32](r, s*d), numbers.Normals[float32](r, s*d)
			dlse := numbers.Normals[float32](r, s)
			var first [5][]float32
			for _, vec := range attentionVectors() {
				var got [5][]float32
				got[0], got[1], got[2], got[3], got[4] = allOf(vec, h, q, k, v, dout, dlse)
				for n, name := range []string{"out", "lse", "dq", "dk", "dv"} {
					what := fmt.Sprintf("S=%d D=%d causal=%v %v %s", s, d, causal, vec, name)
					if first[n] == nil {
						first[n] = got[n]
					}
					if vec != kernel.Portable {
						numbers.SameBits(t, what, got[n], first[n])
						continue
					}
					want := make([]float64, len(got[n]))
					for j, x := range got[n] {
						want[j] = float64(x)
					}
					near(t, what, first[n], want, 2e-5)
				}
			}
		}
	}
}

// A whole head is its parts in order, and an empty part gives nothing.
func TestAttentionWhole(t *testing.T) {
	h := Attention[float32]{S: 900, R: 900, D: 8, V: 8, Scale: 0.3, Causal: true}
	r := rand.New(rand.NewPCG(39, 40))
	n := h.S * h.D
	q, k, v, dout := numbers.Normals[float32](r, n), numbers.Normals[float32](r, n), numbers.Normals[float32](r, n), numbers.Normals[float32](r, n)
	of := func(x []float32) kernel.Rows[float32] { return kernel.Rows[float32]{X: x, Stride: h.D} }
	out, lse, dq, dk, dv := allOf(kernel.VectorsOf[float32](), h, q, k, v, dout, nil)
	o, l, gq, gk, gv := make([]float32, n), make([]float32, h.S), make([]float32, n), numbers.Normals[float32](r, n), numbers.Normals[float32](r, n)
	h.Forward(of(q), of(k), of(v), of(o), l, Terms[float32]{})
	h.Backward(of(q), of(k), of(v), of(o), l, of(dout), nil, of(gq), of(gk), of(gv), kernel.Rows[float32]{}, true)
	for i, got := range [][]float32{o, l, gq, gk, gv} {
		numbers.SameBits(t, []string{"out", "lse", "dq", "dk", "dv"}[i], got, [][]float32{out, lse, dq, dk, dv}[i])
	}
	for _, vec := range attentionVectors() {
		w := h.attend(nil, vec, of(k), of(v))
		w.Backward(of(q), of(out), lse, of(dout), nil, of(gq), kernel.Rows[float32]{}, 0, h.S)
		w.Backward(of(q), of(out), lse, of(dout), nil, of(gq), kernel.Rows[float32]{}, 192, 192)
		w.AddTo(of(gk), of(gv), false)
		w.Release()
		numbers.SameBits(t, vec.String()+" dk", gk, dk)
		numbers.SameBits(t, vec.String()+" dv", gv, dv)
	}
}

// A row has the same bits wherever the work on its head is cut.
func TestAttentionCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, vec := range attentionVectors() {
		for _, causal := range []bool{true, false} {
			h := Attention[float32]{S: 500, R: 500, D: 16, V: 16, Scale: 0.25, Causal: causal}
			q, k, v := numbers.Normals[float32](r, h.S*h.D), numbers.Normals[float32](r, h.S*h.D), numbers.Normals[float32](r, h.S*h.D)
			of := func(x []float32) kernel.Rows[float32] { return kernel.Rows[float32]{X: x, Stride: h.D} }
			out, lse, _, _, _ := allOf(vec, h, q, k, v, q, nil)
			for pieces := 2; pieces < 12; pieces++ {
				o, l := make([]float32, len(out)), make([]float32, len(lse))
				at := 0
				w := h.attend(nil, vec, of(k), of(v))
				for p := range pieces {
					from, to := h.RowAt(h.Work()*p/pieces), h.RowAt(h.Work()*(p+1)/pieces)
					if from != at || to < from || from%attentionBlock != 0 {
						t.Fatalf("piece %d of %d is %d to %d, want it from %d on", p, pieces, from, to, at)
					}
					w.Forward(of(q), of(o), l, Terms[float32]{}, from, to)
					at = to
				}
				w.Release()
				if at != h.S {
					t.Fatalf("%d pieces end at %d, want %d", pieces, at, h.S)
				}
				numbers.SameBits(t, fmt.Sprintf("%v out in %d pieces", vec, pieces), o, out)
				numbers.SameBits(t, fmt.Sprintf("%v lse in %d pieces", vec, pieces), l, lse)
			}
		}
	}
}

func TestAttentionParts(t *testing.T) {
	for _, causal := range []bool{true, false} {
		for s := range 3000 {
			h, at, longest := Attention[float32]{S: s, R: s, D: 1, V: 1, Scale: 1, Causal: causal}, 0, 0
			for p := range h.Parts() {
				from, to := h.Part(p)
				if from != at || to < from || from%partUnit != 0 || s > 0 && to == from {
					t.Fatalf("S=%d: part %d is %d to %d, want it from %d on", s, p, from, to, at)
				}
				work := (to - from) * s
				if causal {
					work = (to*(to+1) - from*(from+1)) / 2
				}
				at, longest = to, max(longest, work)
			}
			if at != s {
				t.Fatalf("S=%d: parts end at %d", s, at)
			}
			if s >= 2000 && longest > h.Work()*2/5 {
				t.Errorf("S=%d causal=%v: a part has %d of %d scores, want a quarter", s, causal, longest, h.Work())
			}
		}
	}
}

// A row of odd values, NaN or Inf, counts only for the queries that attend to it: results
// for the others have the same bits as without it.
func TestAttentionOddValues(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for _, vec := range attentionVectors() {
		h := Attention[float32]{S: 230, R: 230, D: 20, V: 20, Scale: 0.25, Causal: true}
		q, k, v := numbers.Normals[float32](r, h.S*h.D), numbers.Normals[float32](r, h.S*h.D), numbers.Normals[float32](r, h.S*h.D)
		want, _, _, _, _ := allOf(vec, h, q, k, v, q, nil)
		for _, odd := range [][]int{{0}, {1}, {47}, {48}, {50, 51, 90}, {95}, {96}, {100, 229}, {191, 192, 193}, {229}} {
			for _, x := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
				bad := slices.Clone(v)
				for _, j := range odd {
					bad[j*h.D+3] = x
				}
				got, _, _, _, _ := allOf(vec, h, q, k, bad, q, nil)
				for i := range h.S {
					row := got[i*h.D:][:h.D]
					if i >= odd[0] {
						if y := row[3]; !(y != y || y < -math.MaxFloat32) {
							t.Fatalf("%v: row %d is %v with %v in values %v", vec, i, y, x, odd)
						}
						row[3] = want[i*h.D+3] // the other elements are as without
					}
					numbers.SameBits(t, fmt.Sprintf("%v: row %d with %v in values %v", vec, i, x, odd), row, want[i*h.D:][:h.D])
				}
			}
		}
	}
}

// Keys that are NaN, and scores of Inf, as in TestAttentionExtremes, with every kind of kernel.
func TestAttentionOddKeys(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, vec := range attentionVectors() {
		h := Attention[float32]{S: 200, R: 200, D: 1, V: 1, Scale: 1, Causal: true}
		q, k, v := make([]float32, h.S), make([]float32, h.S), make([]float32, h.S)
		for i := range q {
			q[i], k[i], v[i] = 1, -inf, float32(i)
		}
		k[60], k[130], k[150], k[190] = 3000, 3000, -3000, nan
		out, lse, _, _, _ := allOf(vec, h, q, k, v, q, nil)
		for i, x := range out {
			switch {
			case i < 60 && (x != 0 || !math.IsInf(float64(lse[i]), -1)):
				t.Errorf("%v: out[%d] is %v and lse %v, want 0 and -Inf", vec, i, x, lse[i])
			case i < 60:
			case i >= 190:
				if x == x {
					t.Errorf("%v: out[%d] is %v, want NaN", vec, i, x)
				}
			case i < 130 && (x != 60 || lse[i] != 3000):
				t.Errorf("%v: out[%d] is %v and lse %v, want 60 and 3000", vec, i, x, lse[i])
			case i >= 130 && x != 95:
				t.Errorf("%v: out[%d] is %v, want 95", vec, i, x)
			}
		}
	}
}

// After the first time, attention allocates nothing.
func TestAttentionAllocates(t *testing.T) {
	h := Attention[float32]{S: 400, R: 400, D: 24, V: 24, Scale: 0.2, Causal: true}
	x := numbers.Normals[float32](rand.New(rand.NewPCG(37, 38)), h.S*h.D)
	y, lse := make([]float32, len(x)), make([]float32, h.S)
	of := func(x []float32) kernel.Rows[float32] { return kernel.Rows[float32]{X: x, Stride: h.D} }
	if n := testing.AllocsPerRun(20, func() {
		h.Forward(of(x), of(x), of(x), of(y), lse, Terms[float32]{})
		h.Backward(of(x), of(x), of(x), of(y), lse, of(x), nil, of(y), of(y), of(y), kernel.Rows[float32]{}, true)
	}); n >= 1 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A query's result has the same bits whatever stands behind the query, also NaN.
func TestAttentionIsCausal(t *testing.T) {
	a := attention{1, 200, 2, 1, 12, true}
	q, k, v, _ := problem[float32](a)
	out, lse := forward(a, q, k, v)
	for _, s := range []int{1, 2, 63, 64, 65, 128, 150} {
		short := a
		short.s = s
		o, l := forward(short, q[:s*a.n*a.d], k[:s*a.m*a.d], v[:s*a.m*a.d])
		numbers.SameBits(t, fmt.Sprintf("the first %d rows", s), o, out[:len(o)])
		for n := range a.n {
			numbers.SameBits(t, fmt.Sprintf("lse of the first %d rows", s), l[n*s:(n+1)*s], lse[n*a.s:][:s])
		}
		q, k, v := slices.Clone(q), slices.Clone(k), slices.Clone(v)
		for _, x := range [][]float32{q[s*a.n*a.d:], k[s*a.m*a.d:], v[s*a.m*a.d:]} {
			for i := range x {
				x[i] = float32(math.NaN())
			}
		}
		o, _ = forward(a, q, k, v)
		numbers.SameBits(t, fmt.Sprintf("the first %d rows before NaN", s), o[:s*a.n*a.d], out[:s*a.n*a.d])
		if o[s*a.n*a.d] == o[s*a.n*a.d] {
			t.Errorf("row %d of NaN is %v", s, o[s*a.n*a.d])
		}
	}
}

func TestAttentionBackward(t *testing.T) {
	for _, a := range []attention{
		{2, 0, 2, 1, 4, true}, {1, 1, 1, 1, 1, true}, {2, 5, 4, 2, 3, true}, {2, 5, 4, 2, 3, false}, {1, 66, 2, 1, 2, true}, {1, 66, 2, 1, 2, false},
	} {
		q, k, v, dout := problem[float64](a)
		out, lse := forward(a, q, k, v)
		dlse := numbers.Normals[float64](rand.New(rand.NewPCG(12, uint64(a.s))), len(lse))
		dq, dk, dv := backward(a, q, k, v, out, lse, dout, dlse)
		for _, c := range []struct {
			name    string
			at, got []float64
		}{{"dq", q, dq}, {"dk", k, dk}, {"dv", v, dv}} {
			if len(c.at) == 0 {
				continue
			}
			x := slices.Clone(c.at)
			want := fd.Gradient(nil, func(y []float64) float64 {
				copy(c.at, y)
				o, l := forward(a, q, k, v)
				var s float64
				for i := range o {
					s += o[i] * dout[i]
				}
				for i := range l {
					s += l[i] * dlse[i]
				}
				return s
			}, x, &fd.Settings{Formula: fd.Central})
			copy(c.at, x)
			near(t, a.String()+" "+c.name, c.got, want, 5e-8)
		}
	}
}

// Gradients in float32 over several blocks are compared with the same in float64.
func TestAttentionBackwardFloat32(t *testing.T) {
	for _, a := range attentions {
		q, k, v, dout := problem[float32](a)
		out, lse := forward(a, q, k, v)
		dq, dk, dv := backward(a, q, k, v, out, lse, dout, nil)
		Q, K, V, D := problem[float64](a)
		for i, x := range [][]float32{q, k, v, dout} {
			for j := range x {
				[][]float64{Q, K, V, D}[i][j] = float64(x[j])
			}
		}
		out64, lse64 := forward(a, Q, K, V)
		wq, wk, wv := backward(a, Q, K, V, out64, lse64, D, nil)
		near(t, a.String()+" dq", dq, wq, 2e-5)
		near(t, a.String()+" dk", dk, wk, 2e-5)
		near(t, a.String()+" dv", dv, wv, 2e-5)
	}
}

func BenchmarkAttention(b *testing.B) {
	for _, a := range []attention{{1, 2048, 1, 1, 64, true}, {1, 2048, 1, 1, 64, false}, {1, 128, 1, 1, 32, true}} {
		q, k, v, dout := problem[float32](a)
		out, lse := forward(a, q, k, v)
		dq, dk, dv := make([]float32, len(q)), make([]float32, len(q)), make([]float32, len(q))
		of := func(x []float32) kernel.Rows[float32] { return kernel.HeadOf(x, 0, 0, a.s, 1, a.d) }
		flops := 4 * float64(a.s) * float64(a.s) * float64(a.d) // of two products
		if a.causal {
			flops /= 2
		}
		b.Run("forward/"+a.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				head[float32](a).Forward(of(q), of(k), of(v), of(out), lse, Terms[float32]{})
			}
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
		b.Run("backward/"+a.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				head[float32](a).Backward(of(q), of(k), of(v), of(out), lse, of(dout), nil, of(dq), of(dk), of(dv), kernel.Rows[float32]{}, true)
			}
			b.ReportMetric(2.5*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkAttentionToken is a query of each of 4 heads of 32 elements, whose keys and values
// lie side by side, as those of a cache do.
func BenchmarkAttentionToken(b *testing.B) {
	const heads, d = 4, 32
	for _, keys := range []int{100, 4000, 32000} {
		q, k, v := make([]float32, heads*d), make([]float32, keys*heads*d), make([]float32, keys*heads*d)
		for i := range k {
			k[i], v[i] = float32(i*7919%101)/101, float32(i*104729%103)/103
		}
		copy(q, v)
		out, lse := make([]float32, heads*d), make([]float32, heads)
		a := Attention[float32]{S: 1, R: keys, D: d, V: d, Scale: 0.2, Causal: true, At: keys - 1}
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for h := range heads {
					at := a.Attend(nil, kernel.HeadOf(k, 0, h, keys, heads, d), kernel.HeadOf(v, 0, h, keys, heads, d))
					at.Forward(kernel.HeadOf(q, 0, h, 1, heads, d), kernel.HeadOf(out, 0, h, 1, heads, d), lse[h:h+1], Terms[float32]{}, 0, 1)
					at.Release()
				}
			}
		})
	}
}
