package primitives_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// TestReshapePlacement states which dimensions stay split, and how.
func TestReshapePlacement(t *testing.T) {
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	for _, c := range []struct {
		from, to []int
		spec     string
		want     string // "" where it is refused
	}{
		{[]int{8, 6}, []int{48}, "a", "f64[48@a]"},                  // merged: the first stays split
		{[]int{8, 6}, []int{48}, "_,a", ""},                         // not the second
		{[]int{48}, []int{8, 6}, "a.b", "f64[8@a.b,6]"},             // taken apart
		{[]int{48}, []int{2, 24}, "a.b", ""},                        // 2 does not divide by 4
		{[]int{4, 4, 6}, []int{16, 6}, "a,_,b", "f64[16@a,6@b]"},    // a dimension that is not merged stays split
		{[]int{4, 6}, []int{4, 3, 2}, "a,b", ""},                    // 3 does not divide by 2
		{[]int{4, 6}, []int{4, 2, 3}, "a,b", "f64[4@a,2@b,3]"},      //
		{[]int{2, 6, 4}, []int{4, 3, 4}, "a,_,b", "f64[4@a,3,4@b]"}, // 2·6 = 4·3
		{[]int{1, 4, 1}, []int{4}, "_,a", "f64[4@a]"},               // size 1 does not matter
		{[]int{4}, []int{1, 1, 4}, "a", "f64[1,1,4@a]"},             //
		{[]int{4, 4}, []int{4, 1, 4}, "a,b", "f64[4@a,1,4@b]"},      //
		{[]int{0, 4}, []int{0, 2, 2}, "a,b", "f64[0@a,2@b,2]"},      // empty, but placed as others are
		{[]int{4, 0}, []int{2, 0}, "a", "f64[2@a,0]"},               //
		{[]int{0, 3}, []int{3, 0}, "a", ""},                         //
		{[]int{2, 2}, []int{2, 2}, "b,a", "f64[2@b,2@a]"},           //
		{[]int{6, 4}, []int{4, 6}, "a", "f64[4@a,6]"},               //
		{[]int{6, 4}, []int{3, 8}, "_,a", ""},                       // 3·2 = 6 lie outside of 4, 3 outside of 8
	} {
		p := reshapeProgram(t, graph.F64, c.from, c.to)
		spec, err := sharding.ParseSpec(c.spec)
		require.NoError(t, err)
		a, err := gomoe.Place(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": spec}})
		got := ""
		if err == nil {
			got = a.Out[0].Format(p.Out[0].Type)
		}
		if got != c.want {
			t.Errorf("%v by %s to %v: %q %v, want %q", c.from, c.spec, c.to, got, err, c.want)
		}
	}
}

func reshapeProgram(t *testing.T, d graph.DType, from, to []int) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.Reshape(t.Input("x", d, from...), to...)}
	})
	require.NoError(t, err)
	return p
}

// TestReshapeAnything reshapes between random factorings of one size on random
// placements. Where the placement is accepted, every rank holds its part of the
// result, and nothing was exchanged.
func TestReshapeAnything(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(8, 8))
	accepted, split := 0, 0
	for range 800 {
		m, err := sharding.ParseMesh([]string{"a=2", "a=2,b=3", "b=2,a=2", "a=2,b=2,c=2"}[rng.IntN(4)])
		require.NoError(t, err)
		primes := make([]int, rng.IntN(7))
		for i := range primes {
			primes[i] = []int{2, 2, 2, 3, 1, 0}[rng.IntN(6-rng.IntN(2))]
		}
		from, to := factoring(rng, primes), factoring(rng, primes)
		typ := graph.T(graph.I32, from...)
		spec := sharding.Spec{Dims: make([][]string, len(from))}
		for _, k := range rng.Perm(len(m.Axes)) {
			if len(from) > 0 && rng.IntN(3) > 0 {
				d := rng.IntN(len(from))
				if a := m.Axes[k]; from[d]%(m.Parts(spec.Dims[d])*a.Size) == 0 {
					spec.Dims[d] = append(spec.Dims[d], a.Name)
				}
			}
		}
		p := reshapeProgram(t, graph.I32, from, to)
		j, err := gomoe.Open(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": spec}})
		if err != nil {
			if spec.Whole() {
				t.Fatalf("%v to %v: %v", from, to, err)
			}
			continue
		}
		accepted++
		if !spec.Whole() {
			split++
		}
		elems := make([]int32, typ.Len())
		for i := range elems {
			elems[i] = int32(i)
		}
		in, err := array.Of(elems, from...)
		require.NoError(t, err)
		x, err := j.Put("x", in)
		require.NoError(t, err)
		out, err := j.Run(ctx, map[string]*runtime.Array{"x": x})
		require.NoError(t, err)
		want, err := runtime.Put(in.Reshape(to...), m, out[0].Spec, j.Local())
		require.NoError(t, err)
		for r := range j.Local() {
			if !array.Equal(toy.Part(t, out[0], r), toy.Part(t, want, r)) {
				t.Fatalf("%s to %v: rank %d has %v, want %v", spec.Format(typ), to, r, toy.Part(t, out[0], r), toy.Part(t, want, r))
			}
		}
		for _, in := range j.Plan().Instrs {
			if in.Communicates() {
				t.Fatalf("%s to %v exchanges:\n%s", spec.Format(typ), to, j.Plan())
			}
		}
		require.NoError(t, j.Close())
	}
	if split < 150 {
		t.Errorf("%d placements accepted, %d of them split, want at least 150", accepted, split)
	}
}

// factoring multiplies runs of the factors together, with ones between.
func factoring(rng *rand.Rand, primes []int) []int {
	if slices.Contains(primes, 0) { // any other sizes will do
		primes = slices.Clone(primes)
		rng.Shuffle(len(primes), func(i, j int) { primes[i], primes[j] = primes[j], primes[i] })
	}
	var shape []int
	for i := 0; i < len(primes); {
		n := min(1+rng.IntN(3), len(primes)-i)
		size := 1
		for _, p := range primes[i : i+n] {
			size *= p
		}
		shape = append(shape, size)
		i += n
		if rng.IntN(4) == 0 {
			shape = append(shape, 1)
		}
	}
	return shape
}
