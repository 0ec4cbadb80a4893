package primitives_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// attended is attention in loops, in f64. Arguments that are nil are not there.
func attended(p primitives.AttentionOp, in map[string]array.Array) (out, lse []float64) {
	q, k, v := in["q"], in["k"], in["v"]
	b, s, n, d, r, m, w := q.Type.Shape[0], q.Type.Shape[1], q.Type.Shape[2], q.Type.Shape[3], k.Type.Shape[1], k.Type.Shape[2], v.Type.Shape[3]
	qs, ks, vs := q.Float64s(), k.Float64s(), v.Float64s()
	out, lse = make([]float64, b*s*n*w), make([]float64, b*n*s)
	scale := p.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
	}
	for b := range b {
		length := r
		if p.Lengths {
			length = int(in["lengths"].Float64s()[b])
		}
		start := length - s
		if p.Start {
			start = int(in["start"].Float64s()[b])
		}
		for h := range n {
			for i := range s {
				total, row := 0.0, out[((b*s+i)*n+h)*w:][:w]
				if p.Sinks {
					total = math.Exp(in["sinks"].Float64s()[h])
				}
				for j := range length {
					if !p.Full && (j > start+i || p.Window > 0 && j <= start+i-p.Window) {
						continue
					}
					score := 0.0
					for x := range d {
						score += qs[((b*s+i)*n+h)*d+x] * ks[((b*r+j)*m+h/(n/m))*d+x]
					}
					score *= scale
					if p.SoftCap > 0 {
						score = p.SoftCap * math.Tanh(score/p.SoftCap)
					}
					if p.Bias {
						x := in["bias"]
						score += x.Float64s()[((b%x.Type.Shape[0]*x.Type.Shape[1]+h%x.Type.Shape[1])*s+i)*r+j]
					}
					power := math.Exp(score)
					total += power
					for x := range row {
						row[x] += power * vs[((b*r+j)*m+h/(n/m))*w+x]
					}
				}
				for x := range row {
					row[x] /= max(total, math.SmallestNonzeroFloat64)
				}
				lse[(b*n+h)*s+i] = math.Log(total)
			}
		}
	}
	return out, lse
}

// Attention with each option, and each pair of options, is that of loops, also with keys that
// are not there, which are NaN, and in every element type.
func TestAttentionAsLoops(t *testing.T) {
	set := []func(*primitives.AttentionOp){
		func(p *primitives.AttentionOp) {},
		func(p *primitives.AttentionOp) { p.Lengths = true },
		func(p *primitives.AttentionOp) { p.Start = true },
		func(p *primitives.AttentionOp) { p.Sinks = true },
		func(p *primitives.AttentionOp) { p.Bias = true },
		func(p *primitives.AttentionOp) { p.SoftCap = 0.7 },
		func(p *primitives.AttentionOp) { p.Scale = 2 },
		func(p *primitives.AttentionOp) {
			if p.Window == 0 {
				p.Full = true
			}
		},
		func(p *primitives.AttentionOp) {
			if !p.Full {
				p.Window = 3
			}
		},
	}
	r := rand.New(rand.NewPCG(1, 2))
	count := 0
	for i, f := range set {
		for _, g := range set[i:] {
			for _, s := range []int{0, 1, 4} {
				count++
				op := primitives.AttentionOp{}
				f(&op)
				g(&op)
				const b, n, m, d, w, room = 3, 4, 2, 32, 64, 7
				kind := []graph.DType{graph.F64, graph.F32, graph.BF16, graph.F16}[count%4]
				stored := kind
				if kind != graph.F64 && count%3 == 0 {
					stored = []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0}[r.IntN(4)]
				}
				wide := max(kind, graph.F32)
				in := map[string]array.Array{}
				prog := trace(t, func(tr *graph.Tracer) []*graph.Value {
					arg := func(given bool, name string, k graph.DType, shape ...int) *graph.Value {
						if !given {
							return nil
						}
						in[name] = uniform(-1, 1)(r, graph.T(k, shape...))
						return tr.Input(name, k, shape...)
					}
					q, k, v := arg(true, "q", kind, b, s, n, d), arg(true, "k", stored, b, room, m, d), arg(true, "v", stored, b, room, m, w)
					p := primitives.AttentionParams{Scale: op.Scale, Full: op.Full, Window: op.Window, SoftCap: op.SoftCap}
					if p.Lengths = arg(op.Lengths, "lengths", graph.I32, b); op.Lengths {
						in["lengths"] = ids([]int32{0, 5, room}, b)
					}
					if p.Start = arg(op.Start, "start", graph.I32, b); op.Start {
						in["start"] = ids([]int32{2, 0, int32(room - s)}, b)
					}
					p.Sinks = arg(op.Sinks, "sinks", wide, n)
					p.Bias = arg(op.Bias, "bias", wide, []int{1, b}[count%2], []int{n, 1}[count%2], s, room)
					out, lse := primitives.Attention(q, k, v, p)
					return []*graph.Value{out, lse}
				})
				out, lse := attended(op, in)
				if op.Lengths && !stored.IsBlock() { // unused keys must not matter
					for _, name := range []string{"k", "v"} {
						x := in[name].Float64s()
						for i := range x {
							sequence, row := i/(len(x)/b), i%(len(x)/b)/(len(x)/b/room)
							if row >= []int{0, 5, room}[sequence] {
								x[i] = math.NaN()
							}
						}
						in[name] = of(in[name].Type, x)
					}
				}
				for _, threads := range []int{1, 3} {
					got, err := gomoe.Run(t.Context(), prog, gomoe.Config{Options: runtime.Options{Poison: true, Threads: threads}}, in)
					require.NoError(t, err, "%s", prog)
					tolerance := map[graph.DType]float64{graph.F64: 1e-13, graph.F32: 1e-5, graph.BF16: 2e-2, graph.F16: 2e-3}[kind]
					for i, want := range [][]float64{out, lse} {
						for j, x := range got[i].Float64s() {
							if x != want[j] && !(math.Abs(x-want[j]) <= tolerance*max(1, math.Abs(want[j]))) {
								t.Fatalf("result %d, element %d is %v, want %v:\n%s", i, j, x, want[j], prog)
							}
						}
					}
				}
			}
		}
	}
}

// A prompt in one piece, in blocks, and token by token gives the same bits, and so does a mesh.
func TestAttentionTokenByToken(t *testing.T) {
	const s, n, m, d = 150, 4, 2, 16
	r := rand.New(rand.NewPCG(5, 6))
	for _, kind := range []graph.DType{graph.F32, graph.F64, graph.BF16} {
		full := map[string]array.Array{}
		for name, heads := range map[string]int{"q": n, "k": m, "v": m} {
			full[name] = uniform(-1, 1)(r, graph.T(kind, 2, s, heads, d))
		}
		src := func(rows int) string {
			return fmt.Sprintf("program p(q %[1]s[2,%[2]d,%[3]d,%[5]d], k %[1]s[2,%[6]d,%[4]d,%[5]d], v %[1]s[2,%[6]d,%[4]d,%[5]d], n i32[2]) {\n out, lse = attention(q, k, v, n) lengths=true window=100\n return out, lse\n}", kind, rows, n, m, d, s)
		}
		part := func(x array.Array, from, to int) array.Array {
			y := array.New(graph.T(kind, 2, to-from, n, d))
			size := n * d * kind.Size()
			for b := range 2 {
				copy(y.Bytes()[b*(to-from)*size:][:(to-from)*size], x.Bytes()[(b*s+from)*size:])
			}
			return y
		}
		full["n"] = ids([]int32{s, s}, 2)
		want := eval(t, gomoe.Config{}, src(s), full)[0]
		mesh, err := sharding.ParseMesh("dp=2,tp=2")
		require.NoError(t, err)
		placed := map[string]sharding.Spec{"q": sharding.Split("dp", "", "tp"), "k": sharding.Split("dp", "", "tp"), "v": sharding.Split("dp", "", "tp"), "n": sharding.Split("dp")}
		sameBits(t, "on four ranks", eval(t, gomoe.Config{Mesh: mesh, Place: placed}, src(s), full)[0], want)
		for _, step := range []int{1, 50} {
			for from := 0; from < s; from += step {
				if step == 1 && from > 3 && from%37 != 0 && from < s-2 {
					continue
				}
				in := map[string]array.Array{"q": part(full["q"], from, from+step), "k": full["k"], "v": full["v"], "n": ids([]int32{int32(from + step), int32(from + step)}, 2)}
				got := eval(t, gomoe.Config{}, src(step), in)[0]
				sameBits(t, fmt.Sprintf("%s: queries from %d, %d at a time", kind, from, step), got, part(want, from, from+step))
			}
		}
	}
}
