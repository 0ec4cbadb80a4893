package train_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train"
)

// A step on inputs in parts asks for the rows of each rank alone, in microbatches too, and has the bits of one on whole
// arrays.
func TestStepParts(t *testing.T) {
	for _, parts := range []int{0, 2} {
		c := masked{rows: 8, tokens: 4, parts: parts}
		_, _, _, want := c.learn(t, "dp=2,ep=2")
		run, err := train.Open(t.Context(), c.trace(t), c.config(t, "dp=2,ep=2"))
		require.NoError(t, err)
		defer run.Close()
		require.NoError(t, run.Init(t.Context(), 1))
		for step := 1; step <= 3; step++ {
			var mu sync.Mutex
			rows := map[int]int{} // how often each row of x was asked for
			in := train.Whole(c.batch(step))
			whole := in["x"]
			in["x"] = func(p runtime.Part) error {
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, 8, p.Whole.Shape[0])
				require.LessOrEqual(t, p.Type.Shape[0], 2, "a rank has two rows")
				for i := range p.Type.Shape[0] {
					rows[p.Start[0]+i]++
				}
				return whole(p)
			}
			_, err := run.StepParts(context.Background(), step, 0.01, in)
			require.NoError(t, err)
			require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, slices.Sorted(maps.Keys(rows)))
			for row, n := range rows {
				require.Equal(t, 1, n, "row %d", row)
			}
		}
		for name, a := range run.State() {
			got, err := a.Get()
			require.NoError(t, err)
			require.Equal(t, want[name].Bytes(), got.Bytes(), name)
		}
	}
}
