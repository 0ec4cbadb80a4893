package runtime_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// moving returns a program that places x as `to`. If there are pending axes, x has one
// more dimension in front, which is split over them and summed, so that a sum is
// pending.
func moving(t *testing.T, typ graph.Type, m sharding.Mesh, pending []string, from sharding.Spec, to string) (*graph.Program, gomoe.Config) {
	t.Helper()
	src := fmt.Sprintf("program p(x %s) {\n y = sharding_constraint(x) spec=%q\n return y\n}", typ, to)
	if len(pending) > 0 {
		typ.Shape = append([]int{m.Parts(pending)}, typ.Shape...)
		from.Dims = append([][]string{pending}, from.Dims...)
		src = fmt.Sprintf("program p(x %s) {\n s = reduce_sum(x) axes=[0] unordered=true\n y = sharding_constraint(s) spec=%q\n return y\n}", typ, to)
	}
	p, err := gomoe.Parse("reshard", src)
	require.NoError(t, err)
	return p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": from}}
}

// TestMovesCollectives states the exchanges of each kind of move: the
// instructions of its plan, with the bytes that a rank contributes.
func TestMovesCollectives(t *testing.T) {
	m, err := sharding.ParseMesh("a=2,b=3")
	require.NoError(t, err)
	const whole = 12 * 6 * 4
	for _, c := range []struct{ pending, from, to, want string }{
		{"", "a", "a", ""},
		{"", "", "a", "shard_part"},
		{"", "a", "a.b", "shard_part"},
		{"", "", "b,a", "shard_part"},
		{"", "a", "", fmt.Sprintf("all_gather a %d", whole/2)},
		{"", "_,a", "", fmt.Sprintf("all_gather a %d, part_minor", whole/2)},
		{"", "a.b", "a", fmt.Sprintf("all_gather b %d", whole/6)},
		{"", "a.b", "", fmt.Sprintf("all_gather a.b %d", whole/6)},
		{"", "a,b", "", fmt.Sprintf("all_gather a %d, all_gather b %d, part_minor", whole/6, whole/3)},
		{"", "a.b", "b", fmt.Sprintf("all_gather a.b %d, shard_part", whole/6)},
		{"", "a", "b", fmt.Sprintf("all_gather a %d, shard_part", whole/2)},
		{"", "a", "_,a", fmt.Sprintf("part_major, all_to_all a %d, part_minor", whole/2)},
		{"", "_,a", "a", fmt.Sprintf("part_major, all_to_all a %d, part_minor", whole/2)},
		{"", "a.b", "a,b", fmt.Sprintf("part_major, all_to_all b %d, part_minor", whole/6)},
		{"a", "", "", fmt.Sprintf("all_sum a %d", whole)},
		{"a.b", "", "", fmt.Sprintf("all_sum a.b %d", whole)},
		{"a", "b", "b", fmt.Sprintf("all_sum a %d", whole/3)},
		{"a", "", "a", fmt.Sprintf("reduce_scatter a %d", whole)},
		{"a", "", "_,a", fmt.Sprintf("part_major, reduce_scatter a %d", whole)},
		{"a", "b", "b.a", fmt.Sprintf("reduce_scatter a %d", whole/3)},
		{"a.b", "", "a.b", fmt.Sprintf("reduce_scatter a.b %d", whole)},
		{"a", "_,b", "a", fmt.Sprintf("reduce_scatter a %d, all_gather b %d, part_minor", whole/3, whole/6)},
		{"a", "", "b", fmt.Sprintf("all_sum a %d, shard_part", whole)},
		{"a", "", "b.a", fmt.Sprintf("all_sum a %d, shard_part", whole)},
		{"a", "", "{+a}", ""},
		{"", "", "{+a}", "pending_part"},
		{"", "a", "{+a}", fmt.Sprintf("all_gather a %d, pending_part", whole/2)},
		{"a", "", "b{+a}", "shard_part"},
		{"a.b", "", "{+a}", fmt.Sprintf("all_sum b %d", whole)},
		{"a.b", "", "_,b{+a}", fmt.Sprintf("part_major, reduce_scatter b %d", whole)},
		{"a", "", "{+b}", fmt.Sprintf("all_sum a %d, pending_part", whole)},
	} {
		var pending []string
		if c.pending != "" {
			pending = strings.Split(c.pending, ".")
		}
		from, err := sharding.ParseSpec(c.from)
		require.NoError(t, err)
		p, cfg := moving(t, graph.T(graph.F32, 12, 6), m, pending, from, c.to)
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		if got := moves(plan); got != c.want {
			t.Errorf("pending %q, from %q to %q: %s, want %s\n%s", c.pending, c.from, c.to, got, c.want, plan)
		}
	}
}

// moves lists the instructions of a plan except those that reduce and copy out.
func moves(p *lowering.Plan) string {
	var out []string
	for _, in := range p.Instrs {
		switch {
		case in.Communicates():
			out = append(out, fmt.Sprintf("%s %s %d", in.Name(), strings.Join(in.Axes, "."), in.Bytes))
		case in.Name() != "reduce_sum" && in.Name() != "copy":
			out = append(out, in.Name())
		}
	}
	return strings.Join(out, ", ")
}

// TestMoves moves random arrays between random placements and compares every
// rank's part, replicas included, with the part of the whole.
func TestMoves(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(11, 5))
	sizes := []int{0, 1, 2, 3, 5, 6, 6, 7, 12, 12}
	dtypes := []graph.DType{graph.F64, graph.F32, graph.BF16, graph.F16, graph.I32, graph.I64, graph.U32, graph.U8, graph.Bool}
	used := map[string]int{}
	for _, mesh := range []string{"a=2", "a=2,b=3", "b=3,a=2", "a=2,b=2,c=2", "a=5"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		for range 150 {
			typ := graph.Type{DType: dtypes[rng.IntN(len(dtypes))]}
			for range rng.IntN(4) {
				typ.Shape = append(typ.Shape, sizes[rng.IntN(len(sizes))])
			}
			var pending []string
			free := m
			if typ.DType != graph.Bool && rng.IntN(2) == 0 {
				free.Axes = nil
				for _, a := range m.Axes {
					if rng.IntN(2) == 0 {
						pending = append(pending, a.Name)
					} else {
						free.Axes = append(free.Axes, a)
					}
				}
			}
			from, to := randomSpec(rng, free, typ), randomSpec(rng, m, typ)
			for _, a := range m.Axes {
				if typ.DType != graph.Bool && !slices.Contains(to.Axes(), a.Name) && rng.IntN(4) == 0 {
					to.Pending = append(to.Pending, a.Name)
				}
			}
			p, cfg := moving(t, typ, m, pending, from, to.String())
			in, want := randomSum(rng, p.In[0].Type, typ, len(pending) > 0)
			where := fmt.Sprintf("mesh %s, %s pending %v from %q to %q", mesh, typ, pending, from, to)

			j, err := gomoe.Open(t.Context(), p, cfg)
			require.NoError(t, err, where)
			x, err := j.Put("x", in)
			require.NoError(t, err, where)
			out, err := j.Run(ctx, map[string]*runtime.Array{"x": x})
			require.NoError(t, err, where)
			ranks := make([]int, m.Ranks())
			for r := range ranks {
				ranks[r] = r
			}
			parts, err := runtime.Put(want, m, to.Resolved(), ranks)
			require.NoError(t, err, where)
			if !out[0].Spec.Resolved().Equal(parts.Spec) || len(out[0].Spec.Pending) != len(to.Pending) {
				t.Fatalf("%s: the result is placed %s", where, out[0].Spec.Format(typ))
			}
			for r := range ranks {
				if got := sumOf(t, out[0], m, r, to.Pending); !array.Equal(got, toy.Part(t, parts, r)) {
					t.Fatalf("%s: rank %d has %v, want %v\n%s", where, r, got, toy.Part(t, parts, r), j.Plan())
				}
			}
			require.NoError(t, j.Close())
			for _, in := range j.Plan().Instrs {
				used[in.Name()]++
			}
		}
	}
	for _, name := range []string{"all_sum", "reduce_scatter", "all_to_all", "all_gather", "shard_part", "part_major", "part_minor",
		"part_padded", "parts_joined", "parts_padded", "part_unpadded", "parts_apart", "parts_together", "pending_part"} {
		if used[name] < 10 {
			t.Errorf("only %d of the moves had %s; want the cases to cover it", used[name], name)
		}
	}
}

// randomSpec splits dimensions of t over some axes of m, in any order.
func randomSpec(rng *rand.Rand, m sharding.Mesh, t graph.Type) sharding.Spec {
	s := sharding.Spec{Dims: make([][]string, t.Rank())}
	for _, k := range rng.Perm(len(m.Axes)) {
		if a := m.Axes[k]; t.Rank() > 0 && rng.IntN(4) > 0 {
			d := rng.IntN(t.Rank())
			s.Dims[d] = append(slices.Clone(s.Dims[d]), a.Name)
		}
	}
	return s
}

// sumOf returns the sum of what the ranks hold that differ from rank r along axes.
func sumOf(t *testing.T, x *runtime.Array, m sharding.Mesh, r int, axes []string) array.Array {
	if len(axes) == 0 {
		return toy.Part(t, x, r)
	}
	sum := array.New(toy.Part(t, x, r).Type)
	all := sum.Float64s()
	for _, k := range m.Group(r, axes) {
		for i, v := range toy.Part(t, x, k).Float64s() {
			all[i] += v
		}
	}
	if err := sum.SetFloat64s(all); err != nil {
		panic(err)
	}
	return sum
}

// randomSum returns a random array of small integers, which every element type
// adds exactly, and its sum over the first dimension if summed is set.
func randomSum(rng *rand.Rand, in, out graph.Type, summed bool) (x, y array.Array) {
	a, b := make([]float64, in.Len()), make([]float64, out.Len())
	for i := range a {
		a[i] = float64(rng.IntN(16))
		if in.DType == graph.Bool {
			a[i] = float64(rng.IntN(2))
		}
		b[i%len(b)] += a[i]
	}
	x, y = array.New(in), array.New(out)
	for _, err := range []error{x.SetFloat64s(a), y.SetFloat64s(b)} {
		if err != nil {
			panic(err)
		}
	}
	return x, y
}
