package world_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
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

// A rank that ends because of others says so with its status. One that has an error of its own does not, whatever comes with it.
func TestStatusElsewhere(t *testing.T) {
	of := func(blame ...int) error {
		return fmt.Errorf("step 3: %w", &jaccl.Error{Rank: 1, Blame: blame, Err: jaccl.ErrLost})
	}
	full := errors.New("no space left on device")
	for _, c := range []struct {
		err  error
		want int
	}{
		{&world.ElsewhereError{What: "has failed"}, world.StatusElsewhere},
		{fmt.Errorf("63 of 200 steps are done: %w", &world.ElsewhereError{What: "could not write"}), world.StatusElsewhere},
		{of(0), world.StatusElsewhere},
		{of(0, 2), world.StatusElsewhere},
		{errors.Join(of(0), &world.ElsewhereError{}), world.StatusElsewhere},
		{of(1), 1},
		{of(0, 1), 1},
		{of(), 1},
		{full, 1},
		{errors.Join(of(0), full), 1},
		{fmt.Errorf("%w, and %w", full, of(0)), 1},
	} {
		if got := world.Status(c.err); got != c.want {
			t.Errorf("status of %v: %d, want %d", c.err, got, c.want)
		}
	}
	require.EqualError(t, &world.ElsewhereError{What: "has failed"}, "another process has failed; its own message says why")
}
