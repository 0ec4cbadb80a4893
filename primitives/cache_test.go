package primitives_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
)

// A donated cache of every element type is written in place, and only in the rows of the update.
func TestCacheUpdateInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, d := range []graph.DType{graph.F32, graph.F64, graph.BF16, graph.F16, graph.Q8_0} {
		for _, from := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.F64} {
			p, err := gomoe.Parse("cache", fmt.Sprintf("program p(c %s[3,5,2,32], x %s[3,2,2,32], t i32[3]) {\n y = cache_update(c, x, t)\n return y\n}", d, from))
			require.NoError(t, err)
			x := uniform(-1, 1)(r, graph.T(from, 3, 2, 2, 32))
			in := map[string]array.Array{"c": uniform(-1, 1)(r, graph.T(d, 3, 5, 2, 32)), "x": x, "t": ids([]int32{3, 0, 2}, 3)}
			want := array.New(in["c"].Type)
			copy(want.Bytes(), in["c"].Bytes())
			rounded := x.As(graph.F32).As(d)
			if d == graph.F64 || d == from {
				rounded = x.As(d)
			}
			row := len(want.Bytes()) / 15
			for b, at := range []int{3, 0, 2} {
				copy(want.Bytes()[(b*5+at)*row:][:2*row], rounded.Bytes()[b*2*row:])
			}
			cfg := gomoe.Config{Donate: map[string]int{"c": 0}, Options: runtime.Options{Poison: true}}
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err)
			require.True(t, plan.Donated[0].InPlace, "%s", plan)
			for _, cfg := range []gomoe.Config{cfg, {}} {
				got, err := gomoe.Run(t.Context(), p, cfg, in)
				require.NoError(t, err)
				sameBits(t, fmt.Sprintf("%s into %s", from, d), got[0], want)
			}
		}
	}
}

// A step of decoding writes its caches in place and takes no memory that grows with them.
func TestDecodeStepCopiesNoCache(t *testing.T) {
	arena := func(d graph.DType, room int) int64 {
		src := fmt.Sprintf(`program p(k T[2,%[1]d,2,32], v T[2,%[1]d,2,32], q f32[2,1,4,32], x f32[2,1,2,32], n i32[2]) {
	at = sub(n, one)
	one = full() value=1 dtype=i32 shape=[2]
	k2 = cache_update(k, x, at)
	v2 = cache_update(v, x, at)
	y, lse = attention(q, k2, v2, n) lengths=true
	return y, k2, v2
}`, room)
		src = strings.Replace(src, "\tat = sub(n, one)\n\tone = full() value=1 dtype=i32 shape=[2]\n", "\tone = full() value=1 dtype=i32 shape=[2]\n\tat = sub(n, one)\n", 1)
		p, err := gomoe.Parse("step", strings.ReplaceAll(src, "T[", d.String()+"["))
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Donate: map[string]int{"k": 1, "v": 2}})
		require.NoError(t, err)
		for _, x := range plan.Donated {
			require.True(t, x.InPlace, "%s: %s", d, plan)
		}
		updates := 0
		for _, i := range plan.Instrs {
			if i.Name() == "cache_update" {
				updates++
			}
			require.NotContains(t, i.Name(), "copy", "%s", plan)
		}
		require.Equal(t, 2, updates, "%s", plan)
		m := plan.Report(2).Mem
		return m.Arena + m.Scratch + m.Workspace
	}
	for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0} {
		small, large := arena(d, 768), arena(d, 8192)
		// A flag for each block of keys and, of each 768 keys, what they come to for each of 8
		// heads of queries: 34 numbers. But no key.
		if large-small > 8*34*4*(8192/768+2)+256 {
			t.Errorf("%s: a step takes %d bytes with room for 768 keys, and %d with room for 8192", d, small, large)
		}
	}
}

// A donated state of a recurrence or a convolution is updated in place, and a donated value is not written over.
func TestStateDonated(t *testing.T) {
	for _, c := range []struct{ src, values string }{
		{recurrenceSrc("2,5,2,3", "2,5,2,3", "2,5,2", "2,2,3,3", ""), "q k v"},
		{convolutionSrc("3,5,4", "4,6", "3,5,4", "silu bias lengths"), "x"},
		{convolutionSrc("2,70,40", "40,4", "2,3,40", ""), "x"},
	} {
		p, err := gomoe.Parse("donated", strings.ReplaceAll(c.src, "f64", "f32"))
		require.NoError(t, err)
		in := row{in: gens{"g": uniform(-1, 0), "n": values(3, 0, 1)}}.inputs(p, 7)
		want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		for _, name := range strings.Fields("s " + c.values) {
			result := 0
			if name == "s" {
				result = 1
			}
			cfg := gomoe.Config{Donate: map[string]int{name: result}, Options: runtime.Options{Poison: true}}
			plan, err := gomoe.Compile(t.Context(), p, cfg)
			require.NoError(t, err)
			require.Equal(t, name == "s", plan.Donated[0].InPlace, name)
			got, err := gomoe.Run(t.Context(), p, cfg, in)
			require.NoError(t, err)
			for i := range want {
				require.True(t, array.Equal(want[i], got[i]), "%s: result %d", name, i)
			}
		}
	}
}
