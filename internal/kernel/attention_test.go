package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
)

// attention is a problem of b sequences with n query heads and m key heads.
type attention struct {
	b, s, n, m, d int
	causal        bool
}

func (a attention) String() string {
	return fmt.Sprintf("B=%d S=%d N=%d M=%d D=%d causal=%v", a.b, a.s, a.n, a.m, a.d, a.causal)
}

func head[T Float](a attention) Attention[T] {
	return Attention[T]{a.s, a.d, T(1 / math.Sqrt(float64(a.d))), a.causal}
}

func forward[T Float](a attention, q, k, v []T) (out, lse []T) {
	out, lse = make([]T, len(q)), make([]T, a.b*a.n*a.s)
	for b := range a.b {
		for n := range a.n {
			g := n / (a.n / a.m)
			head[T](a).Forward(HeadOf(q, b, n, a.s, a.n, a.d), HeadOf(k, b, g, a.s, a.m, a.d), HeadOf(v, b, g, a.s, a.m, a.d),
				HeadOf(out, b, n, a.s, a.n, a.d), lse[(b*a.n+n)*a.s:])
		}
	}
	return out, lse
}

func backward[T Float](a attention, q, k, v, out, lse, dout, dlse []T) (dq, dk, dv []T) {
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
			head[T](a).Backward(HeadOf(q, b, n, a.s, a.n, a.d), HeadOf(k, b, g, a.s, a.m, a.d), HeadOf(v, b, g, a.s, a.m, a.d),
				HeadOf(out, b, n, a.s, a.n, a.d), lse[(b*a.n+n)*a.s:], HeadOf(dout, b, n, a.s, a.n, a.d), at,
				HeadOf(dq, b, n, a.s, a.n, a.d), HeadOf(dk, b, g, a.s, a.m, a.d), HeadOf(dv, b, g, a.s, a.m, a.d), n%(a.n/a.m) == 0)
		}
	}
	return dq, dk, dv
}

// attentionRef is the formula, in float64, with all scores of a row at once.
func attentionRef[T Float](a attention, q, k, v []T) (out, lse []float64) {
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

func problem[T Float](a attention) (q, k, v, dout []T) {
	r := rand.New(rand.NewPCG(11, uint64(a.s)))
	return normals[T](r, a.b*a.s*a.n*a.d), normals[T](r, a.b*a.s*a.m*a.d), normals[T](r, a.b*a.s*a.m*a.d), normals[T](r, a.b*a.s*a.n*a.d)
}

func near[T Float](t *testing.T, what string, got []T, want []float64, tolerance float64) {
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

// Large scores neither overflow nor vanish, -Inf scores count for nothing.
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
	if out, _ = forward(a, q, k, v); out[0] == out[0] {
		t.Errorf("out is %v without keys, want NaN", out[0])
	}
}

// A query's result is the same bits whatever stands behind it, also NaN.
func TestAttentionIsCausal(t *testing.T) {
	a := attention{1, 200, 2, 1, 12, true}
	q, k, v, _ := problem[float32](a)
	out, lse := forward(a, q, k, v)
	for _, s := range []int{1, 2, 63, 64, 65, 128, 150} {
		short := a
		short.s = s
		o, l := forward(short, q[:s*a.n*a.d], k[:s*a.m*a.d], v[:s*a.m*a.d])
		sameBits(t, fmt.Sprintf("the first %d rows", s), o, out[:len(o)])
		for n := range a.n {
			sameBits(t, fmt.Sprintf("lse of the first %d rows", s), l[n*s:(n+1)*s], lse[n*a.s:][:s])
		}
		q, k, v := slices.Clone(q), slices.Clone(k), slices.Clone(v)
		for _, x := range [][]float32{q[s*a.n*a.d:], k[s*a.m*a.d:], v[s*a.m*a.d:]} {
			for i := range x {
				x[i] = float32(math.NaN())
			}
		}
		o, _ = forward(a, q, k, v)
		sameBits(t, fmt.Sprintf("the first %d rows before NaN", s), o[:s*a.n*a.d], out[:s*a.n*a.d])
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
		dlse := normals[float64](rand.New(rand.NewPCG(12, uint64(a.s))), len(lse))
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

// Over several blocks and in float32, against the same in float64.
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
		of := func(x []float32) Rows[float32] { return HeadOf(x, 0, 0, a.s, 1, a.d) }
		flops := 4 * float64(a.s) * float64(a.s) * float64(a.d) // of two products
		if a.causal {
			flops /= 2
		}
		b.Run("forward/"+a.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				head[float32](a).Forward(of(q), of(k), of(v), of(out), lse)
			}
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
		b.Run("backward/"+a.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				head[float32](a).Backward(of(q), of(k), of(v), of(out), lse, of(dout), nil, of(dq), of(dk), of(dv), true)
			}
			b.ReportMetric(2.5*flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
