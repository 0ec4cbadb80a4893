package runtime_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// counting returns an array of 0, 1, 2, ...
func counting(t *testing.T, shape ...int) array.Array {
	t.Helper()
	x := make([]int32, graph.T(graph.I32, shape...).Len())
	for i := range x {
		x[i] = int32(i)
	}
	a, err := array.Of(x, shape...)
	require.NoError(t, err)
	return a
}

func mesh(t *testing.T, s string) sharding.Mesh {
	t.Helper()
	m, err := sharding.ParseMesh(s)
	require.NoError(t, err)
	return m
}

func TestPut(t *testing.T) {
	m := mesh(t, "a=2,b=2") // rank 2a + b
	all := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		spec  string
		parts [4][]int32
	}{
		{"", [4][]int32{all, all, all, all}},
		{"a", [4][]int32{{0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5, 6, 7}, {4, 5, 6, 7}}},
		{"b", [4][]int32{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}}},
		{"_,b", [4][]int32{{0, 1, 4, 5}, {2, 3, 6, 7}, {0, 1, 4, 5}, {2, 3, 6, 7}}},
		{"_,a.b", [4][]int32{{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
		{"_,b.a", [4][]int32{{0, 4}, {2, 6}, {1, 5}, {3, 7}}},
		{"a,b", [4][]int32{{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
		{"b,a", [4][]int32{{0, 1}, {4, 5}, {2, 3}, {6, 7}}},
		{"a.b", [4][]int32{{0, 1, 2, 3}, {}, {4, 5, 6, 7}, {}}},
	} {
		spec, err := sharding.ParseSpec(c.spec)
		require.NoError(t, err)
		d, err := runtime.Put(counting(t, 2, 4), m, spec, []int{0, 1, 2, 3})
		require.NoError(t, err, c.spec)
		for r, want := range c.parts {
			if got := array.Data[int32](toy.Part(t, d, r)); !slices.Equal(got, want) {
				t.Errorf("spec %q: rank %d has %v, want %v", c.spec, r, got, want)
			}
		}
	}
}

func TestPutRefuses(t *testing.T) {
	m := mesh(t, "a=2,b=2")
	for _, c := range []struct {
		spec sharding.Spec
		want string
	}{
		{sharding.Split("a", "a"), "runtime: put i32[2,4]: the placement a,a uses axis a twice"},
		{sharding.Split("c"), `runtime: put i32[2,4]: the mesh "a=2,b=2" has no axis c`},
		{sharding.Split("", "", "a"), "runtime: put i32[2,4]: the placement _,_,a has 3 entries for i32[2,4], want at most 2"},
		{sharding.Split("{+c}"), `runtime: put i32[2,4]: the mesh "a=2,b=2" has no axis c`},
		{sharding.Spec{Ragged: &sharding.Ragged{}}, "runtime: put i32[2~,4]: arrays are whole, split or pending, not ragged"},
	} {
		if _, err := runtime.Put(counting(t, 2, 4), m, c.spec, []int{0}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// The first rank along the pending axes gets the elements of a pending sum. The host cannot
// read the sum, which no rank has.
func TestPutPending(t *testing.T) {
	d, err := runtime.Put(counting(t, 2, 2), mesh(t, "a=2,b=2"), sharding.Split("b", "{+a}"), []int{0, 1, 2, 3})
	require.NoError(t, err)
	for r, want := range [][]int32{{0, 1}, {2, 3}, {0, 0}, {0, 0}} {
		if got := array.Data[int32](toy.Part(t, d, r)); !slices.Equal(got, want) {
			t.Errorf("rank %d has %v, want %v", r, got, want)
		}
	}
	_, err = d.Get()
	require.EqualError(t, err, "runtime: get i32[2@b,2]{+a}: ranks hold summands that are not added up over a; give the array to a program with this placement that returns it, which adds it up")
}

// TestPutGet puts random arrays on random ranks and gets them back.
func TestPutGet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	m := mesh(t, "a=2,b=3,c=1")
	dtypes := []graph.DType{graph.Bool, graph.U8, graph.BF16, graph.F32, graph.I64, graph.Q8_0, graph.MXFP4}
	for range 300 {
		typ := graph.Type{DType: dtypes[rng.IntN(len(dtypes))]}
		for range rng.IntN(4) {
			typ.Shape = append(typ.Shape, []int{0, 1, 2, 3, 5, 12}[rng.IntN(6)])
		}
		block, _ := typ.DType.Block()
		if n := typ.Rank(); n > 0 {
			typ.Shape[n-1] *= block
		} else if block > 1 {
			continue
		}
		spec := sharding.Spec{Dims: make([][]string, typ.Rank())}
		for _, k := range rng.Perm(len(m.Axes)) {
			if typ.Rank() == 0 {
				break
			}
			d := rng.IntN(typ.Rank())
			spec.Dims[d] = append(spec.Dims[d], m.Axes[k].Name)
		}
		x := array.New(typ)
		for i := range x.Bytes() {
			x.Bytes()[i] = byte(rng.IntN(2))
		}
		before := x.Clone()
		d, err := runtime.Put(x, m, spec, rng.Perm(6))
		require.NoError(t, err)
		for i := range x.Bytes() {
			x.Bytes()[i] = 7 // Put has copied
		}
		got, err := d.Get()
		require.NoError(t, err)
		if !array.Equal(got, before) {
			t.Fatalf("%s on %s: got %v, want %v", spec.Format(typ), m, got, before)
		}
	}
}

// TestGetPartly gets an array some of whose ranks are in other processes.
func TestGetPartly(t *testing.T) {
	m := mesh(t, "a=2,b=2")
	d, err := runtime.Put(counting(t, 2, 4), m, sharding.Split("a"), []int{1, 3})
	require.NoError(t, err)
	got, err := d.Get()
	require.NoError(t, err, "ranks 1 and 3 hold both halves")
	if !array.Equal(got, counting(t, 2, 4)) {
		t.Errorf("got %v", got)
	}
	d, err = runtime.Put(counting(t, 2, 4), m, sharding.Split("a"), []int{2, 3})
	require.NoError(t, err)
	if _, err := d.Get(); err == nil || !strings.Contains(err.Error(), "runtime: get i32[2@a,4]: this process holds 1 of 2 parts") {
		t.Errorf("%v, want an error that counts the parts", err)
	}
}
