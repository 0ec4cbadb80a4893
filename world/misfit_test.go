package world_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/world"
)

// An axis that is left to the job has its ranks, and what does not divide or fit is an error with a status of its own.
func TestParseMesh(t *testing.T) {
	three := vars(job(0, 3, "127.0.0.1:1"))
	for text, want := range map[string]string{"ep=*": "ep=3", "dp=*,ep=1": "dp=3,ep=1", "dp=2,ep=2": "dp=2,ep=2"} {
		m, err := world.ParseMesh(text, three)
		require.NoError(t, err)
		require.Equal(t, want, m.String())
	}
	m, err := world.ParseMesh("dp=*,ep=2", vars(""))
	require.NoError(t, err)
	require.Equal(t, "dp=1,ep=2", m.String())

	_, err = world.ParseMesh("dp=*,ep=2", three)
	require.EqualError(t, err, `sharding: mesh "dp=*,ep=2" of 3 ranks: the other axes have 2, want a multiple of that`)
	require.Equal(t, world.StatusMisfit, world.Status(fmt.Errorf("pretrain: %w", err)))
	var w world.World
	err = w.Setup(t.Context(), world.Config{Mesh: meshOf(t, "ep=2"), Getenv: three})
	require.ErrorContains(t, err, `the mesh "ep=2" has 2 ranks, and `)
	require.Equal(t, world.StatusMisfit, world.Status(err))
	broken := vars("GOMOE_RANK=1 GOMOE_SIZE=x")
	m, err = world.ParseMesh("dp=2", broken)
	require.NoError(t, err, "a mesh of that size in any environment")
	require.Equal(t, "dp=2", m.String())
	_, err = world.ParseMesh("dp=*", broken)
	require.ErrorContains(t, err, "GOMOE_SIZE")
	_, err = world.ParseMesh("dp=2,ep", three)
	require.Equal(t, 1, world.Status(err))
	require.Equal(t, 0, world.Status(nil))
	require.Equal(t, 1, world.Status(errors.New("else")))
}

// Every process gets what the others pass, of any lengths.
func TestGather(t *testing.T) {
	for _, lengths := range [][]int{{3, 0, 5}, {0, 0, 0}, {1, 1, 1}} {
		errs := worlds(t, 3, func(int) world.Config { return world.Config{Transport: "tcp"} }, func(i int, w *world.World) error {
			of := func(r int) string { return string("abcdefgh"[r : r+lengths[r]]) }
			all, err := w.Gather(t.Context(), []byte(of(i)))
			if err != nil {
				return err
			}
			for r, got := range all {
				if string(got) != of(r) {
					return fmt.Errorf("rank %d has %q of rank %d, want %q", i, got, r, of(r))
				}
			}
			return nil
		})
		require.NoError(t, errors.Join(errs...))
	}
	var w world.World
	require.NoError(t, w.Setup(t.Context(), world.Config{Getenv: vars("")}))
	all, err := w.Gather(t.Context(), []byte("mine"))
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("mine")}, all)
}
