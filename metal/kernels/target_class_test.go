package kernels

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

// Ranks that are taken to have one kernel build the same launches, and most instructions
// have one kernel on all ranks.
func TestRanksOfOneKernel(t *testing.T) {
	src, err := os.ReadFile("../../cmd/gomoe/testdata/moe.graph")
	require.NoError(t, err)
	p, err := graph.Parse("moe.graph", string(src), primitives.All()...)
	require.NoError(t, err)
	m, err := sharding.ParseMesh("dp=2,ep=2")
	require.NoError(t, err)
	a, err := sharding.Propagate(t.Context(), p, m, map[string]sharding.Spec{"x": sharding.Split("dp.ep")})
	require.NoError(t, err)
	plan, err := lowering.Lower(t.Context(), a, lowering.Options{Fuse: true, Target: Metal{}})
	require.NoError(t, err)
	served, apart := 0, 0
	for i := range plan.Instrs {
		if !plan.Instrs[i].On {
			continue
		}
		served++
		of := map[int]*Program{}
		var built []*Instr
		for rank := range m.Ranks() {
			in := Of(plan, i, rank)
			program, _, err := Build(in)
			require.NoError(t, err)
			of[rank] = program
			alike := false
			for _, b := range built {
				if b.fits(rank) {
					alike = true
					require.True(t, reflect.DeepEqual(of[b.rank].Launches, program.Launches), "instruction %d, %s, on ranks %d and %d", i, in.Name(), b.rank, rank)
				}
			}
			if !alike {
				built = append(built, in)
			}
		}
		if len(built) > 1 {
			apart++
		}
	}
	require.Positive(t, served)
	require.Positive(t, apart, "instructions that depend on the rank")
	require.Less(t, 2*apart, served, "instructions that depend on the rank, against all")
}
