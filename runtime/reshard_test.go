package runtime_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// one returns a plan with an input w of that type, and its placement.
func one(t *testing.T, name string, typ graph.Type, mesh, place string) *lowering.Plan {
	t.Helper()
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		tr.Input("w", typ.DType, typ.Shape...)
		return []*graph.Value{toy.Sum(tr.Input("x", graph.F64, 4))}
	})
	p.Name = name
	return plan(t, p, toy.Setup{Mesh: mesh, Place: map[string]string{"w": place}})
}

// jobs opens two jobs of the same processes, which hold that many ranks each, and calls fn
// for every process. travel is called before every exchange of the second job.
func jobs(t *testing.T, ranks []int, from, to *lowering.Plan, travel func(c collective.Call, src [][]byte), fn func(a, b *runtime.Session) error) {
	t.Helper()
	comms := [2][]collective.Communicator{}
	for k := range comms {
		all, err := engine.Local(from.Mesh.Ranks(), jaccl.Options{})
		require.NoError(t, err)
		for _, c := range all {
			comms[k] = append(comms[k], &counted{c, travel})
		}
	}
	errs := make(chan error)
	first := 0
	for _, n := range ranks {
		a, err := runtime.Open(from, comms[0][first:first+n], runtime.Options{})
		require.NoError(t, err)
		b, err := runtime.Open(to, comms[1][first:first+n], runtime.Options{})
		require.NoError(t, err)
		first += n
		go func() {
			defer a.Close()
			defer b.Close()
			errs <- fn(a, b)
		}()
	}
	for range ranks {
		require.NoError(t, <-errs)
	}
}

// counted shows the test what is sent.
type counted struct {
	collective.Communicator
	travel func(c collective.Call, src [][]byte)
}

func (c *counted) Group(ranks []int) (collective.Group, error) {
	g, err := c.Communicator.Group(ranks)
	return &countedGroup{g, c}, err
}

type countedGroup struct {
	collective.Group
	of *counted
}

func (g *countedGroup) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	g.of.travel(c, src)
	return g.Group.AllToAll(ctx, c, dst, src)
}

// Arrays move between random placements, on the same mesh and on another, in one process
// and in several. Every rank is sent what it does not hold, and nothing else.
func TestReshard(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	meshes := []string{"a=6", "a=2,b=3", "b=3,a=2", "c=3,b=2"}
	dtypes := []graph.DType{graph.Bool, graph.BF16, graph.F32, graph.I64, graph.Q8_0}
	exchanged, still := 0, 0
	for range 120 {
		typ := graph.Type{DType: dtypes[rng.IntN(len(dtypes))]}
		for range 1 + rng.IntN(3) {
			typ.Shape = append(typ.Shape, []int{0, 1, 2, 3, 5, 6, 7, 12, 12, 13}[rng.IntN(10)])
		}
		block, _ := typ.DType.Block()
		typ.Shape[len(typ.Shape)-1] *= block
		m := [2]string{meshes[rng.IntN(len(meshes))], meshes[rng.IntN(len(meshes))]}
		var specs [2]string
		for i := range m {
			specs[i] = somewhere(rng, mesh(t, m[i]), typ).String()
		}
		from, to := one(t, "from", typ, m[0], specs[0]), one(t, "to", typ, m[1], specs[1])
		want := array.New(typ)
		for i := range want.Bytes() {
			want.Bytes()[i] = byte(rng.IntN(2))
		}
		lacking := missing(from, to)
		for _, ranks := range [][]int{{6}, {2, 4}, {1, 1, 1, 1, 1, 1}} {
			where := fmt.Sprintf("%s from %s on %s to %s on %s, processes %v", typ, specs[0], m[0], specs[1], m[1], ranks)
			var sent atomic.Int64
			jobs(t, ranks, from, to, func(_ collective.Call, src [][]byte) {
				for _, b := range src {
					sent.Add(int64(len(b)))
				}
			}, func(a, b *runtime.Session) error {
				x, err := a.Put("w", want)
				if err != nil {
					return err
				}
				y, err := b.Reshard(t.Context(), "w", x)
				if err != nil {
					return err
				}
				whole, err := runtime.Put(want, to.Mesh, to.In[0].Spec, b.Local())
				if err != nil {
					return err
				}
				if !y.Spec.Equal(whole.Spec) {
					t.Errorf("%s: placed %s", where, y.Spec)
				}
				for i := range b.Local() {
					if got := toy.Part(t, y, i); !array.Equal(got, toy.Part(t, whole, i)) {
						t.Errorf("%s: rank %d has %v, want %v", where, b.Local()[i], got, toy.Part(t, whole, i))
					}
				}
				_, err = x.Parts() // is not spent
				return err
			})
			bytes := lacking
			if len(ranks) == 1 {
				bytes = 0
			}
			if sent.Load() != bytes {
				t.Errorf("%s: %d bytes are sent, want %d", where, sent.Load(), bytes)
			}
		}
		if lacking > 0 {
			exchanged++
		} else {
			still++
		}
	}
	if exchanged < 40 || still < 20 {
		t.Errorf("%d cases with an exchange and %d without, want 40 and 20", exchanged, still)
	}
}

// missing returns how many bytes ranks are to hold and do not hold.
func missing(from, to *lowering.Plan) int64 {
	n := 0
	typ := from.In[0].Type
	units, size := typ.Units()
	block := 1
	if len(units) > 0 && units[len(units)-1] > 0 {
		block = typ.Shape[len(units)-1] / units[len(units)-1]
	}
	for r := range from.Mesh.Ranks() {
		held := map[string]bool{}
		each(from.In[0].Spec, from.Mesh, r, typ, block, func(at string) { held[at] = true })
		each(to.In[0].Spec, to.Mesh, r, typ, block, func(at string) {
			if !held[at] {
				n += size
			}
		})
	}
	return int64(n)
}

// each calls f for the place of every unit of a rank's part.
func each(s sharding.Spec, m sharding.Mesh, rank int, typ graph.Type, block int, f func(at string)) {
	start, part := s.Box(m, rank, typ)
	shape, _ := part.Units()
	if part.Len() == 0 {
		return
	}
	start[len(start)-1] /= block
	index := slices.Clone(start)
	for {
		f(fmt.Sprint(index))
		d := len(index) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < start[d]+shape[d] {
				break
			}
			index[d] = start[d]
		}
		if d < 0 {
			return
		}
	}
}

func somewhere(rng *rand.Rand, m sharding.Mesh, t graph.Type) sharding.Spec {
	s := sharding.Spec{Dims: make([][]string, t.Rank())}
	for _, k := range rng.Perm(len(m.Axes)) {
		if rng.IntN(4) > 0 {
			d := rng.IntN(t.Rank())
			s.Dims[d] = append(s.Dims[d], m.Axes[k].Name)
		}
	}
	return s
}

// In one process, arrays also move between meshes of different numbers of ranks.
func TestReshardRanks(t *testing.T) {
	typ := graph.T(graph.I32, 7, 3)
	large, small := open(t, one(t, "from", typ, "a=2,b=2", "a,b"), runtime.Options{}), open(t, one(t, "to", typ, "a=3", "_,a"), runtime.Options{})
	want := counting(t, 7, 3)
	x, err := large.Put("w", want)
	require.NoError(t, err)
	y, err := small.Reshard(t.Context(), "w", x)
	require.NoError(t, err)
	z, err := large.Reshard(t.Context(), "w", y)
	require.NoError(t, err)
	for _, d := range []*runtime.Array{y, z} {
		got, err := d.Get()
		require.NoError(t, err)
		require.True(t, array.Equal(got, want), "got %v", got)
	}
	require.Equal(t, "_,a", y.Spec.String())
	require.Equal(t, "a,b", z.Spec.String())
}

func TestReshardRefuses(t *testing.T) {
	typ := graph.T(graph.I32, 8, 3)
	from, to := one(t, "from", typ, "a=2,b=2", "a,b"), one(t, "to", typ, "a=4", "a")
	jobs(t, []int{2, 2}, from, to, func(collective.Call, [][]byte) {}, func(a, b *runtime.Session) error {
		x, err := a.Put("w", counting(t, 8, 3))
		if err != nil {
			return err
		}
		a.Recycle(x)
		elsewhere, err := runtime.Put(counting(t, 8, 3), from.Mesh, from.In[0].Spec, []int{1})
		if err != nil {
			return err
		}
		other, err := runtime.Put(counting(t, 8, 4), from.Mesh, from.In[0].Spec, a.Local())
		if err != nil {
			return err
		}
		for want, d := range map[string]*runtime.Array{
			"runtime: reshard i32[8,3]: its memory was recycled; recycle what is not used any more": x,
			"runtime: reshard: no array, want one that a step of a session has returned":            nil,
			"runtime: reshard: input w of to is i32[8,4], want i32[8,3]":                            other,
			fmt.Sprintf(`runtime: reshard: input w of to: the array lies on ranks [1] of the mesh "a=2,b=2", want the session's ranks %v in a mesh of 4 ranks, such as "a=4"; the processes of both jobs are the same ones`, b.Local()): elsewhere,
		} {
			if _, err := b.Reshard(t.Context(), "w", d); err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		_, err = b.Reshard(t.Context(), "v", x)
		if err == nil {
			t.Error("an input that the plan does not have")
		}
		return nil
	})
}
