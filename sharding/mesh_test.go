package sharding_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

func mesh(t *testing.T, s string) sharding.Mesh {
	t.Helper()
	m, err := sharding.ParseMesh(s)
	require.NoError(t, err)
	return m
}

func TestParseMesh(t *testing.T) {
	for _, c := range []struct {
		text, prints string
		ranks        int
	}{
		{"", "", 1}, {"  ", "", 1}, {"ep=4", "ep=4", 4}, {"dp=2,ep=4", "dp=2,ep=4", 8}, {" a1 = 1", "", 0},
		{" dp=2 , Ep2=1", "dp=2,Ep2=1", 2}, {"a=65536", "a=65536", 65536},
		{"dp=2,ep=0-95/96-127", "dp=2,ep=0-95/96-127", 4}, {"ep= none / 0-0 ", "ep=none/0", 2},
		{"dp=2,ep=128:3/1", "dp=2,ep=0-95/96-127", 4}, {"dp=2,ep=2 order=0,2, 1,3", "dp=2,ep=2 order=0,2,1,3", 4},
		{"dp=2,ep=2x4", "dp=2,ep=2x4", 16}, {"ep=1x4", "ep=4", 4}, {"ep=4x1", "ep=4x1", 4}, {"ep=2x0-2/3/none/4", "ep=2x0-2/3/none/4", 4}, {"ep=2x128:3/1", "ep=2x0-95/96-127", 2},
	} {
		m, err := sharding.ParseMesh(c.text)
		if c.ranks == 0 {
			require.Error(t, err, c.text)
			continue
		}
		require.NoError(t, err)
		if m.String() != c.prints || m.Ranks() != c.ranks {
			t.Errorf("%q is %q of %d ranks, want %q of %d", c.text, m, m.Ranks(), c.prints, c.ranks)
		}
		again, err := sharding.ParseMesh(m.String())
		require.NoError(t, err)
		require.Equal(t, m, again)
		require.True(t, m.Equal(again))
	}
	for _, other := range []string{"", "ep=2", "ep=4,dp=2", "dp=2,ep=5", "dp=2,ep=0/1/2/3", "dp=2,ep=2x2", "dp=2,ep=4 order=1,0,2,3,4,5,6,7"} {
		a, err := sharding.ParseMesh("dp=2,ep=4")
		require.NoError(t, err)
		b, err := sharding.ParseMesh(other)
		require.NoError(t, err)
		require.False(t, a.Equal(b), other)
	}
	for text, want := range map[string]string{
		"ep":                `sharding: mesh "ep": "ep" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=0":              `sharding: mesh "ep=0": "ep=0" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=-2":             `sharding: mesh "ep=-2": "ep=-2" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"dp=*,ep=2":         `sharding: mesh "dp=*,ep=2": dp is left to the number of ranks; world.ParseMesh reads such a mesh, or FitMesh with a number`,
		"ep=2x*":            `sharding: mesh "ep=2x*": "ep=2x*" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=x":              `sharding: mesh "ep=x": "ep=x" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=0x2":            `sharding: mesh "ep=0x2": "ep=0x2" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=2x":             `sharding: mesh "ep=2x": "ep=2x" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=x2":             `sharding: mesh "ep=x2": "ep=x2" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=2x2x2":          `sharding: mesh "ep=2x2x2": "ep=2x2x2" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"ep=65536x2":        `sharding: mesh "ep=65536x2": more than 65536 ranks`,
		"ep=2x99999999999":  `sharding: mesh "ep=2x99999999999": more than 65536 ranks`,
		"ep=2x0/1/2":        `sharding: axis ep of size 3 on 2 machines, want as many ranks on each`,
		"ep=0-3/5-7":        `sharding: mesh "ep=0-3/5-7": axis ep: ep: split "0-3/5-7": "5-7" does not begin at 4, where the part before ends`,
		"ep=2 order=0,1,2":  `sharding: order [0 1 2] of the 2 ranks of a mesh, want each of 0 to 1 once`,
		"ep=3 order=0,1":    `sharding: order [0 1] of the 3 ranks of a mesh, want each of 0 to 2 once`,
		"ep=2 order=0,0":    `sharding: order [0 0] of the 2 ranks of a mesh, want each of 0 to 1 once`,
		"ep=2 order=-1,0":   `sharding: order [-1 0] of the 2 ranks of a mesh, want each of 0 to 1 once`,
		"ep=2 order=0;1":    `sharding: order "0;1": "0;1" is no rank, want numbers with commas between, such as 0,2,1,3`,
		"ep=2,":             `sharding: mesh "ep=2,": "" is no axis, want name=size with a size of at least 1, such as dp=2,ep=4`,
		"=2":                `sharding: mesh "=2": axis name "", want a letter and then letters or digits`,
		"1a=2":              `sharding: mesh "1a=2": axis name "1a", want a letter and then letters or digits`,
		"e.p=2":             `sharding: mesh "e.p=2": axis name "e.p", want a letter and then letters or digits`,
		"_=2":               `sharding: mesh "_=2": axis name "_", want a letter and then letters or digits`,
		"ep=2,ep=2":         `sharding: mesh "ep=2,ep=2": axis ep is given twice`,
		"a=65537":           `sharding: mesh "a=65537": more than 65536 ranks`,
		"a=65536,b=65536":   `sharding: mesh "a=65536,b=65536": more than 65536 ranks`,
		"a=999999999999999": `sharding: mesh "a=999999999999999": more than 65536 ranks`,
	} {
		_, err := sharding.ParseMesh(text)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// An order puts other ranks side by side: groups, parts and neighbours follow from the places.
func TestOrder(t *testing.T) {
	m, order := mesh(t, "dp=2,ep=3"), []int{4, 2, 0, 1, 5, 3}
	o, err := m.Ordered("4,2,0,1,5,3")
	require.NoError(t, err)
	require.Equal(t, order, o.Order)
	require.Nil(t, m.Order)
	for place, rank := range order {
		for _, axes := range [][]string{{"dp"}, {"ep"}, {"dp", "ep"}, {"ep", "dp"}, {"tp"}} {
			require.Equal(t, m.Index(place, axes), o.Index(rank, axes))
			if axes[0] == "tp" {
				continue
			}
			start, n := m.Part(place, axes, 7)
			first, size := o.Part(rank, axes, 7)
			require.Equal(t, []int{start, n}, []int{first, size})
			var group []int
			for _, p := range m.Group(place, axes) {
				group = append(group, order[p])
			}
			require.Equal(t, group, o.Group(rank, axes))
		}
		for i, r := range o.Group(rank, []string{"ep"}) {
			require.Equal(t, r, o.Along(rank, "ep", i))
		}
		require.Equal(t, rank, o.Along(rank, "tp", 0))
	}
	require.Equal(t, []int{4, 2, 0}, o.Group(0, []string{"ep"}))
	require.Equal(t, []int{0, 3}, o.Group(3, []string{"dp"}))
	x := graph.T(graph.F32, 7)
	require.Equal(t, graph.T(graph.F32, 3), sharding.Split("ep").Local(o, x), "room for the largest part")
}

// Groups are row-major: the last axis varies fastest.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		mesh string
		axes []string
		want [][]int // the groups, by their lowest rank
	}{
		{"expert=4,tensor=2", []string{"expert"}, [][]int{{0, 2, 4, 6}, {1, 3, 5, 7}}},
		{"expert=4,tensor=2", []string{"tensor"}, [][]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
		{"expert=4,tensor=2", []string{"expert", "tensor"}, [][]int{{0, 1, 2, 3, 4, 5, 6, 7}}},
		{"expert=4,tensor=2", []string{"tensor", "expert"}, [][]int{{0, 2, 4, 6, 1, 3, 5, 7}}},
		{"expert=4,tensor=2", nil, [][]int{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}},
		{"a=2,b=3,c=2", []string{"b"}, [][]int{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}},
		{"a=2,b=3,c=2", []string{"a", "c"}, [][]int{{0, 1, 6, 7}, {2, 3, 8, 9}, {4, 5, 10, 11}}},
		{"a=2,b=3,c=2", []string{"c", "a"}, [][]int{{0, 6, 1, 7}, {2, 8, 3, 9}, {4, 10, 5, 11}}},
		{"a=1,b=2", []string{"a"}, [][]int{{0}, {1}}},
		{"", nil, [][]int{{0}}},
	} {
		m := mesh(t, c.mesh)
		seen := 0
		for _, g := range c.want {
			for i, r := range g {
				seen++
				if got := m.Group(r, c.axes); !slices.Equal(got, g) {
					t.Errorf("%s: rank %d over %v: group %v, want %v", c.mesh, r, c.axes, got, g)
				}
				if got := m.Index(r, c.axes); got != i {
					t.Errorf("%s: rank %d over %v: index %d, want %d", c.mesh, r, c.axes, got, i)
				}
			}
		}
		require.Equal(t, m.Ranks(), seen)
		require.Equal(t, len(c.want[0]), m.Parts(c.axes))
	}
}

func TestMeshSizes(t *testing.T) {
	m := mesh(t, "dp=2,ep=4")
	require.Equal(t, 4, m.Size("ep"))
	require.Equal(t, 0, m.Size("tp"))
	require.Equal(t, 0, m.Parts([]string{"tp"}))
	require.Equal(t, []string{"dp", "ep"}, m.Union([]string{"ep"}, []string{"dp", "ep"}))
}

// An axis whose ranks lie on several machines has two levels: the ranks of a machine are neighbours
// along it, and those at the same place of each machine are a group. No value is placed on a level.
func TestMachines(t *testing.T) {
	m, err := sharding.ParseMesh("ep=2x3,tp=2")
	require.NoError(t, err)
	between, within := sharding.Levels("ep")
	require.Equal(t, []int{2, 1, 1}, []int{m.Machines("ep"), m.Machines("tp"), m.Machines("dp")})
	require.Equal(t, []int{6, 2, 3}, []int{m.Size("ep"), m.Size(between), m.Size(within)})
	for rank := range m.Ranks() {
		ep, tp := rank/2, rank%2
		machine, place := ep/3, ep%3
		require.Equal(t, []int{machine, place}, []int{m.Index(rank, []string{between}), m.Index(rank, []string{within})})
		require.Equal(t, ep, m.Index(rank, []string{between, within}))
		var pair, near []int
		for i := range 2 {
			pair = append(pair, 2*(3*i+place)+tp)
		}
		for i := range 3 {
			near = append(near, 2*(3*machine+i)+tp)
		}
		require.Equal(t, pair, m.Group(rank, []string{between}))
		require.Equal(t, near, m.Group(rank, []string{within}))
	}
	ordered, err := m.Ordered("11,10,9,8,7,6,5,4,3,2,1,0")
	require.NoError(t, err)
	require.Equal(t, []int{11, 5}, ordered.Group(11, []string{between}))
	require.Equal(t, []int{11, 9, 7}, ordered.Group(9, []string{within}))
	_, err = sharding.Split(within).Check(m, graph.T(graph.F32, 6))
	require.ErrorContains(t, err, "has no axis ep:machine")
	_, err = sharding.Split("{+ep:machines}").Check(m, graph.T(graph.F32, 6))
	require.ErrorContains(t, err, "has no axis ep:machines")
}
