package primitives_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/vjp"
)

// Few heads of long sequences, which threads share, and many heads, each of which has a
// thread of its own, have the same bits for any number of threads.
func TestAttentionThreads(t *testing.T) {
	shapes, counts := [][3]int{{1, 1, 1}, {1, 3, 1}, {1, 4, 2}, {2, 3, 3}}, []int{2, 3, 7}
	if testing.Short() { // which takes minutes where another processor is emulated
		shapes, counts = [][3]int{shapes[0], shapes[2]}, counts[1:2]
	}
	for _, heads := range shapes {
		for _, full := range []string{"", " full=true"} {
			b, n, m := heads[0], heads[1], heads[2]
			src := fmt.Sprintf("program p(q f32[%d,600,%d,32], k f32[%d,600,%d,32], v f32[%d,600,%d,32]) {\n out, lse = attention(q, k, v)%s\n return out, lse\n}",
				b, n, b, m, b, m, full)
			p, err := gomoe.Parse("threads", src)
			require.NoError(t, err)
			pull, err := vjp.Pullback(p)
			require.NoError(t, err)
			in := row{}.inputs(pull, 5)
			want, err := gomoe.Run(context.Background(), pull, gomoe.Config{Options: runtime.Options{Threads: 1, Finite: true}}, in)
			require.NoError(t, err)
			for _, threads := range counts {
				got, err := gomoe.Run(context.Background(), pull, gomoe.Config{Options: runtime.Options{Threads: threads, Poison: true}}, in)
				require.NoError(t, err)
				for i := range want {
					if !array.Equal(got[i], want[i]) {
						t.Errorf("heads %v%s: result %d differs between 1 and %d threads", heads, full, i, threads)
					}
				}
			}
		}
	}
}

// Few queries with long caches, whose keys threads share, have the same bits for any number of
// threads, and those of the same queries among many.
func TestAttentionThreadsShareKeys(t *testing.T) {
	const room, many = 2500, 70
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		b, n, m int
		lengths []int32
		cache   graph.DType
		options string
	}{
		{1, 1, 1, []int32{2500}, graph.F32, ""},
		{1, 4, 1, []int32{2400}, graph.BF16, ""},
		{2, 4, 2, []int32{70, 2300}, graph.Q8_0, ""},
		{1, 2, 2, []int32{2321}, graph.F16, " window=900 soft_cap=3"},
		{2, 2, 1, []int32{1600, 800}, graph.F64, ""},
	} {
		kind := graph.F32
		if c.cache == graph.F64 {
			kind = graph.F64
		}
		in := map[string]array.Array{"n": ids(c.lengths, c.b)}
		in["q"], in["s"] = uniform(-1, 1)(r, graph.T(kind, c.b, many, c.n, 32)), uniform(-1, 1)(r, graph.T(kind, c.n))
		in["k"], in["v"] = uniform(-1, 1)(r, graph.T(c.cache, c.b, room, c.m, 32)), uniform(-1, 1)(r, graph.T(c.cache, c.b, room, c.m, 32))
		src := func(s int) string {
			return fmt.Sprintf("program p(q %[1]s[%[2]d,%[3]d,%[4]d,32], k %[6]s[%[2]d,%[7]d,%[5]d,32], v %[6]s[%[2]d,%[7]d,%[5]d,32], n i32[%[2]d], s %[1]s[%[4]d]) {\n out, lse = attention(q, k, v, n, s) lengths=true sinks=true%[8]s\n return out, lse\n}",
				kind, c.b, s, c.n, c.m, c.cache, room, c.options)
		}
		run := func(threads, s int, in map[string]array.Array) array.Array {
			p, err := gomoe.Parse("few", src(s))
			require.NoError(t, err)
			out, err := gomoe.Run(t.Context(), p, gomoe.Config{Options: runtime.Options{Threads: threads, Poison: true}}, in)
			require.NoError(t, err)
			return out[0]
		}
		want := run(2, many, in)
		for _, s := range []int{1, 3} {
			last := func(x array.Array) array.Array {
				y := array.New(graph.T(kind, c.b, s, c.n, 32))
				size := c.n * 32 * kind.Size()
				for b := range c.b {
					copy(y.Bytes()[b*s*size:][:s*size], x.Bytes()[((b+1)*many-s)*size:])
				}
				return y
			}
			step := maps.Clone(in)
			step["q"] = last(in["q"])
			for _, threads := range []int{1, 2, 3, 7} {
				sameBits(t, fmt.Sprintf("%+v: %d queries on %d threads", c, s, threads), run(threads, s, step), last(want))
			}
		}
	}
}

// Heads and sequences of a batch do not change each other's bits: a rank that has a part
// of them computes that part of the whole.
func TestAttentionOfPart(t *testing.T) {
	src := func(b, n, m int) string {
		return fmt.Sprintf("program p(q f32[%d,400,%d,8], k f32[%d,400,%d,8], v f32[%d,400,%d,8]) {\n out, lse = attention(q, k, v)\n return out, lse\n}", b, n, b, m, b, m)
	}
	p, err := gomoe.Parse("part", src(2, 4, 2))
	require.NoError(t, err)
	pull, err := vjp.Pullback(p)
	require.NoError(t, err)
	in := row{}.inputs(pull, 6)
	want, err := gomoe.Run(context.Background(), pull, gomoe.Config{Options: runtime.Options{Threads: 2}}, in)
	require.NoError(t, err)

	q, err := gomoe.Parse("part", src(1, 2, 1))
	require.NoError(t, err)
	pull1, err := vjp.Pullback(q)
	require.NoError(t, err)
	// of returns heads half of sequence 1 in x[2,400,h,8] or x[2,h,400].
	const half = 1
	of := func(x array.Array) array.Array {
		s := x.Type.Shape
		shape := append([]int(nil), s...)
		axis := 2
		if len(s) == 3 {
			axis = 1
		}
		shape[0], shape[axis] = 1, s[axis]/2
		y := array.New(graph.T(graph.F32, shape...))
		inner := 1
		for _, n := range s[axis+1:] {
			inner *= n
		}
		size := shape[axis] * inner
		to, from := array.Data[float32](y), array.Data[float32](x)[len(array.Data[float32](x))/2:]
		for at := 0; at*size < len(to); at++ {
			copy(to[at*size:][:size], from[(2*at+half)*size:])
		}
		return y
	}
	in1 := map[string]array.Array{}
	for name, x := range in {
		in1[name] = of(x)
	}
	got, err := gomoe.Run(context.Background(), pull1, gomoe.Config{Options: runtime.Options{Threads: 1}}, in1)
	require.NoError(t, err)
	for i := range got {
		if !array.Equal(got[i], of(want[i])) {
			t.Errorf("result %d of one group of one sequence differs from that of all", i)
		}
	}
}

// Heads without elements attend evenly.
func TestAttentionOfNothing(t *testing.T) {
	x := array.New(graph.T(graph.F32, 1, 3, 1, 0))
	out := eval(t, gomoe.Config{}, "program p(q f32[1,3,1,0]) {\n out, lse = attention(q, q, q)\n return out, lse\n}", map[string]array.Array{"q": x})
	for i, got := range array.Data[float32](out[1]) {
		if want := float32(math.Log(float64(i + 1))); got != want {
			t.Errorf("lse[%d] is %v, want %v", i, got, want)
		}
	}
}
