package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// Experts of tokens that are whole over their axis run over every transport, MLX's ring
// among them, which has no all_to_all.
func TestExpertsOfWholeTokens(t *testing.T) {
	for _, c := range []struct{ mesh, transport string }{{"ep=2", "ring"}, {"ep=4", "ring"}, {"ep=2", "tcp"}, {"ep=4", "shm"}} {
		t.Run(c.mesh+" "+c.transport, func(t *testing.T) {
			wholeExperts(t, c.mesh, func(int) world.Config { return world.Config{Mode: world.PerProcess, Transport: c.transport} })
		})
	}
}

// wholeExperts runs a layer in as many processes as the mesh has ranks, with tokens that
// are whole over ep, and compares every result with that of one rank: to the bit if a row
// comes home for every pair, and closely if ranks' sums do.
func wholeExperts(t *testing.T, mesh string, config func(i int) world.Config) {
	t.Helper()
	m := meshOf(t, mesh)
	for _, exchange := range []ep.Exchange{ep.Rows, ep.Sum} {
		p, _, in := layeredBy(t, exchange)
		want, err := gomoe.Run(t.Context(), p, gomoe.Config{}, in)
		require.NoError(t, err)
		ok(t, worlds(t, m.Ranks(), func(i int) world.Config {
			cfg := config(i)
			cfg.Mesh = m
			return cfg
		}, func(i int, w *world.World) error {
			j, err := gomoe.Open(t.Context(), p, gomoe.Config{World: w, Mesh: *m, Place: map[string]sharding.Spec{"w": sharding.Split("ep")}})
			if err != nil {
				return err
			}
			defer j.Close()
			for range 3 {
				got, err := j.Step(t.Context(), in)
				if err != nil {
					return err
				}
				for k := range want {
					if d, at := array.MaxDiff(got[k], want[k]); exchange == ep.Rows && !array.Equal(got[k], want[k]) || !(d <= 1e-5) {
						t.Errorf("%s: process %d: result %d differs by %g at %d\n%v\nwant\n%v", exchange, i, k, d, at, got[k], want[k])
					}
				}
			}
			if err := j.Close(); err != nil {
				return err
			}
			return w.Reset()
		}))
	}
}
