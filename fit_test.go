package gomoe_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// Fit takes the largest blocks whose plan is no larger than what is asked for, to the byte.
func TestFit(t *testing.T) {
	mesh, err := sharding.ParseMesh("ep=16")
	require.NoError(t, err)
	split := sharding.Split("ep")
	cfg := gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": split, "logits": split, "up": split, "down": split}}
	total := func(rows int) int64 {
		p, err := expertsInBlocks(rows)
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, cfg)
		require.NoError(t, err)
		return plan.Report(runtime.GOMAXPROCS(0)).Mem.Total
	}
	want := total(2048)
	require.Less(t, want, total(4096))
	for size, rows := range map[int64]int{want: 2048, want - 1: 1024} {
		p, got, err := gomoe.Fit(t.Context(), size, 16*1024, cfg, expertsInBlocks)
		require.NoError(t, err)
		require.Equal(t, rows, got)
		again, err := expertsInBlocks(rows)
		require.NoError(t, err)
		require.Equal(t, again.String(), p.String())
	}
}

func TestFitMistakes(t *testing.T) {
	mesh, err := sharding.ParseMesh("ep=16")
	require.NoError(t, err)
	cfg := gomoe.Config{Mesh: mesh}
	_, _, err = gomoe.Fit(t.Context(), 1<<10, 16*1024, cfg, expertsInBlocks)
	require.ErrorContains(t, err, "gomoe: fit: a rank takes ")
	require.ErrorContains(t, err, ", which is the least of all sizes, and 1024 B are wanted")
	_, _, err = gomoe.Fit(t.Context(), 0, 1, cfg, expertsInBlocks)
	require.EqualError(t, err, "gomoe: fit 1 rows in 0 bytes: want at least 1 of each")
	refused := errors.New("no such weights")
	_, _, err = gomoe.Fit(t.Context(), 1<<10, 4, cfg, func(int) (*graph.Program, error) { return nil, refused })
	require.ErrorIs(t, err, refused)
	// A number of rows that the program refuses is passed over.
	_, rows, err := gomoe.Fit(t.Context(), 1<<40, 16*1024, cfg, func(rows int) (*graph.Program, error) {
		if rows > 1024 {
			return nil, refused
		}
		return expertsInBlocks(rows)
	})
	require.NoError(t, err)
	require.Equal(t, 1024, rows)
}
