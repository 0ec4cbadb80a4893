package sharding_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

func typeOf(t *testing.T, s string) graph.Type {
	t.Helper()
	p, err := graph.Parse("p.graph", "program p(x "+s+") {\n return x\n}")
	require.NoError(t, err)
	return p.In[0].Type
}

// TestCut states parts of all sizes.
func TestCut(t *testing.T) {
	m := mesh(t, "a=2,b=3,one=1")
	for _, c := range []struct {
		axes []string
		n    int
		want string // the sizes of the parts
	}{
		{nil, 7, "[7]"},
		{[]string{"one"}, 7, "[7]"},
		{[]string{"a"}, 7, "[4 3]"},
		{[]string{"b"}, 7, "[3 2 2]"},
		{[]string{"b"}, 1, "[1 0 0]"},
		{[]string{"b"}, 0, "[0 0 0]"},
		{[]string{"a", "b"}, 7, "[2 1 1 1 1 1]"},
		{[]string{"a", "b"}, 8, "[2 1 1 2 1 1]"}, // 4 and 4, then each over b
		{[]string{"b", "a"}, 8, "[2 1 2 1 1 1]"}, // 3, 3 and 2, then each over a
		{[]string{"a", "b"}, 12, "[2 2 2 2 2 2]"},
	} {
		var sizes []int
		at := 0
		for i := range m.Parts(c.axes) {
			start, size := m.Cut(c.axes, c.n, i)
			require.Equal(t, at, start, "%v of %d: part %d", c.axes, c.n, i)
			sizes, at = append(sizes, size), at+size
		}
		require.Equal(t, c.n, at, "%v", c.axes)
		require.Equal(t, c.want, fmt.Sprint(sizes), "%v of %d", c.axes, c.n)
	}
}

// TestCutNests checks that the parts along the last axis are together the part that the
// axes before it give, for every size and order of axes.
func TestCutNests(t *testing.T) {
	m := mesh(t, "a=2,b=3,c=4")
	for _, axes := range [][]string{{"a", "b", "c"}, {"c", "a", "b"}, {"b", "c"}, {"c", "b"}} {
		major, last := axes[:len(axes)-1], m.Size(axes[len(axes)-1])
		for n := range 60 {
			for i := range m.Parts(major) {
				start, size := m.Cut(major, n, i)
				at := start
				for k := range last {
					s, part := m.Cut(axes, n, i*last+k)
					require.Equal(t, at, s, "%v of %d", axes, n)
					at += part
				}
				require.Equal(t, start+size, at, "%v of %d", axes, n)
			}
		}
	}
}

// TestBox states the parts of whole values. Together they are the value, and none is larger
// than rank 0's.
func TestBox(t *testing.T) {
	m := mesh(t, "a=2,b=2")
	for _, c := range []struct {
		spec, typ string
		uneven    string
		want      []string // of each rank, as start and type
	}{
		{"a", "f32[4,3]", "", []string{"[0 0] f32[2,3]", "[0 0] f32[2,3]", "[2 0] f32[2,3]", "[2 0] f32[2,3]"}},
		{"a", "f32[3,3]", "f32[3@a,3]", []string{"[0 0] f32[2,3]", "[0 0] f32[2,3]", "[2 0] f32[1,3]", "[2 0] f32[1,3]"}},
		{"a,b", "f32[1,4]", "f32[1@a,2]", []string{"[0 0] f32[1,2]", "[0 2] f32[1,2]", "[1 0] f32[0,2]", "[1 2] f32[0,2]"}},
		{"_,b.a", "f32[2,5]", "f32[2,5@b.a]", []string{"[0 0] f32[2,2]", "[0 3] f32[2,1]", "[0 2] f32[2,1]", "[0 4] f32[2,1]"}},
		{"_,a", "q8_0[2,96]", "q8_0[2,96@a]", []string{"[0 0] q8_0[2,64]", "[0 0] q8_0[2,64]", "[0 64] q8_0[2,32]", "[0 64] q8_0[2,32]"}},
		{"a", "q8_0[3,32]", "q8_0[3@a,32]", []string{"[0 0] q8_0[2,32]", "[0 0] q8_0[2,32]", "[2 0] q8_0[1,32]", "[2 0] q8_0[1,32]"}},
	} {
		typ := typeOf(t, c.typ)
		s, err := spec(t, c.spec).Check(m, typ)
		require.NoError(t, err)
		var got []string
		for r := range m.Ranks() {
			start, part := s.Box(m, r, typ)
			got = append(got, fmt.Sprint(start, " ", part))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s by %s: %q, want %q", c.typ, c.spec, got, c.want)
		}
		if _, first := s.Box(m, 0, typ); !s.Local(m, typ).Equal(first) {
			t.Errorf("%s by %s: the largest part is %s, want %s", c.typ, c.spec, s.Local(m, typ), first)
		}
		if u := s.Uneven(m, typ); u != c.uneven {
			t.Errorf("%s by %s: uneven as %q, want %q", c.typ, c.spec, u, c.uneven)
		}
	}
}

// TestPlaceUneven checks that dimensions of different sizes are split alike only where each
// rank gets the same share of both.
func TestPlaceUneven(t *testing.T) {
	merge := sharding.Factors{In: [][]int{{0, sharding.Whole}}, Out: [][]int{{0}}}
	product := sharding.Factors{In: [][]int{{0, 1}, {2, 1}}, Out: [][]int{{0, 2}}, Sum: []int{1}}
	for _, c := range []struct {
		name string
		f    sharding.Factors
		in   []string // types, each with the placement behind it
		out  string
		want string // the placed result, or the error
	}{
		{"merged, even", merge, []string{"f32[8,7] a"}, "f32[56]", "f32[56@a]"},
		{"merged, uneven", merge, []string{"f32[7,8] a"}, "f32[56]",
			"dimension 0 of argument 0, f32[7,8], and dimension 0 of result 0, f32[56], do not divide alike over the 2 ranks of a; gather it with sharding_constraint, or split over ranks whose number divides both"},
		{"merged with 1", merge, []string{"f32[7,1] a"}, "f32[7]", "f32[7@a]"},
		{"contracted, uneven", product, []string{"f32[3,7] _,a", "f32[5,7]"}, "f32[3,5]", "f32[3,5]{+a}"},
		{"contracted with blocks", product, []string{"f32[3,128]", "q8_0[5,128] _,a"}, "f32[3,5]", "f32[3,5]{+a}"},
		{"contracted with blocks, uneven", product, []string{"f32[3,96]", "q8_0[5,96] _,a"}, "f32[3,5]",
			"dimension 1 of argument 0, f32[3,96], and dimension 1 of argument 1, q8_0[5,96], do not divide alike over the 2 ranks of a, as blocks of q8_0 are 32 elements; gather it with sharding_constraint, or split over ranks whose number divides both"},
	} {
		ctx := &sharding.Context{Mesh: mesh(t, "a=2"), Eqn: &graph.Eqn{}}
		for _, in := range c.in {
			var typ, at string
			fmt.Sscan(in, &typ, &at)
			v := &graph.Value{Type: typeOf(t, typ)}
			s, err := spec(t, at).Check(ctx.Mesh, v.Type)
			require.NoError(t, err)
			ctx.Eqn.In, ctx.In = append(ctx.Eqn.In, v), append(ctx.In, s)
		}
		ctx.Eqn.Out = []*graph.Value{{Type: typeOf(t, c.out)}}
		dec, err := ctx.Place(c.f)
		got := fmtErr(err)
		if err == nil {
			got = dec.Out[0].Format(ctx.Eqn.Out[0].Type)
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// An axis with ranges cuts as many units as they are for into these ranges, behind other axes
// too, and all other numbers of units as equally as can be. Room is for the largest part,
// wherever it is.
func TestCutRanges(t *testing.T) {
	m := mesh(t, "dp=2,ep=0/1-3/none")
	for _, c := range []struct {
		axes string
		n    int
		want string
	}{
		{"ep", 4, "0/1-3/none"}, {"ep", 5, "0-1/2-3/4"}, {"dp.ep", 8, "0/1-3/none/4/5-7/none"}, {"dp.ep", 4, "0/1/none/2/3/none"}, {"dp", 4, "0-1/2-3"},
		{"ep.dp", 4, "0/none/1-2/3/none/none"},
	} {
		axes := sharding.Split(c.axes).At(0)
		if got := m.Cuts(axes, c.n).String(); got != c.want {
			t.Errorf("%s cut %d into %s, want %s", c.axes, c.n, got, c.want)
		}
	}
	w := graph.T(graph.F32, 4, 2)
	s := sharding.Split("ep")
	require.Equal(t, "f32[3,2]", s.Local(m, w).String())
	require.Equal(t, "f32[4@ep,2]", s.Uneven(m, w))
	require.False(t, s.Even(m, w, 0))
	require.True(t, sharding.Split("dp").Even(m, w, 0))
	for rank, want := range []string{"f32[1,2]", "f32[3,2]", "f32[0,2]"} {
		_, part := s.Box(m, rank, w)
		require.Equal(t, want, part.String())
	}
	require.True(t, sharding.Split("ep").Even(mesh(t, "ep=0-1/2-3"), w, 0))
}

// Ranges that do not fit their axis are an error.
func TestRangesOfAnAxis(t *testing.T) {
	p := &graph.Program{Name: "p"}
	for want, a := range map[string]sharding.Axis{
		"sharding: axis ep of size 3 has 2 ranges, want one for each rank along it":                  {Name: "ep", Size: 3, Ranges: ep.Split{0, 1, 4}},
		"sharding: axis ep: ep: split [0 3 1]: part 1 ends before it begins; want ascending numbers": {Name: "ep", Size: 2, Ranges: ep.Split{0, 3, 1}},
	} {
		_, err := sharding.Propagate(t.Context(), p, sharding.Mesh{Axes: []sharding.Axis{a}}, nil)
		require.EqualError(t, err, want)
	}
}

// A mesh with blocks cuts whole ones, and what they do not divide as any mesh.
func TestCutBlocks(t *testing.T) {
	for _, c := range []struct {
		mesh string
		axes []string
		n    int
		want string // the sizes of the parts
	}{
		{"a=3 blocks=8", []string{"a"}, 64, "[24 24 16]"},
		{"a=3 blocks=8", []string{"a"}, 8, "[3 3 2]"},
		{"a=3 blocks=8", []string{"a"}, 12, "[4 4 4]"},
		{"a=3 blocks=2", []string{"a"}, 12, "[4 4 4]"},
		{"a=3,b=2 blocks=8", []string{"a", "b"}, 16, "[4 2 4 2 2 2]"},
		{"a=3,b=2 blocks=8", []string{"b", "a"}, 16, "[4 2 2 4 2 2]"},
		{"a=16:9/5/2 blocks=8", []string{"a"}, 16, "[9 5 2]"},
		{"a=16:9/5/2 blocks=8", []string{"a"}, 64, "[24 24 16]"},
		{"b=2,a=4:3/1 blocks=8", []string{"b", "a"}, 8, "[2 2 2 2]"}, // after b, there are as many blocks as the ranges have units
		{"b=2,a=4:3/1 blocks=8", []string{"b", "a"}, 64, "[16 16 16 16]"},
	} {
		m := mesh(t, c.mesh)
		require.Equal(t, c.mesh == m.String(), m.Ranges("a") == nil)
		again := mesh(t, m.String())
		require.True(t, again.Equal(m), m.String())
		cuts := m.Cuts(c.axes, c.n)
		var sizes []int
		for i := range cuts.Parts() {
			sizes = append(sizes, cuts.Size(i))
		}
		require.Equal(t, c.want, fmt.Sprint(sizes), "%s of %d", c.mesh, c.n)
		require.Equal(t, cuts.Largest()*cuts.Parts() == c.n, m.Even(c.axes, c.n), "%s of %d", c.mesh, c.n)
	}
	m := mesh(t, "a=3 blocks=8")
	require.True(t, m.CutAlike([]string{"a"}, 8, 64))
	require.False(t, m.CutAlike([]string{"a"}, 8, 20))
	require.False(t, mesh(t, "a=3").CutAlike([]string{"a"}, 8, 64))
	for _, c := range []struct {
		a, b  string
		n     int
		alike bool
	}{{"a=2", "a=2 blocks=8", 8, true}, {"a=2", "a=2 blocks=8", 64, true}, {"a=3", "a=3 blocks=8", 64, false}, {"a=3", "a=3 blocks=8", 20, true}, {"a=3", "a=4 blocks=8", 20, false}} {
		one, other := mesh(t, c.a), mesh(t, c.b)
		require.Equal(t, c.alike, one.PlacesAlike(other, sharding.Split("a"), graph.T(graph.F32, c.n)), "%v", c)
		require.Equal(t, c.alike, other.PlacesAlike(one, sharding.Split("a"), graph.T(graph.F32, c.n)), "%v", c)
	}
	for _, bad := range []string{"a=3 blocks=0", "a=3 blocks=x"} {
		_, err := sharding.ParseMesh(bad)
		require.ErrorContains(t, err, "number of blocks")
	}
}
