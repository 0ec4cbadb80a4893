package fuzzprog

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/lowering"
)

// runnable returns the first placements of p that are accepted, beginning with one rank.
func runnable(t *testing.T, p Program) []tried {
	out := []tried{{}}
	for _, c := range tries(t, p.Program, p.Seed) {
		if len(out) == 4 {
			break
		}
		if _, err := gomoe.Compile(t.Context(), p.Program, c.config()); err == nil {
			out = append(out, c)
		}
	}
	return out
}

// TestSessions runs programs with other options, repeatedly, and with other inputs in
// between. The bits stay the same.
func TestSessions(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		in, other := p.Inputs(p.Program, seed), p.Inputs(p.Program, seed+1)
		for _, c := range runnable(t, p) {
			what := fmt.Sprintf("seed %d: %s\n%s", seed, c, p)
			var want [2][]array.Array
			for threads := range 4 {
				cfg := c.config()
				cfg.Threads, cfg.Poison = threads, threads != 1
				j, err := gomoe.Open(t.Context(), p.Program, cfg)
				require.NoError(t, err, what)
				for i, args := range []arrays{in, other, other, in} {
					old := runtime.GOMAXPROCS(1 + i%2)
					got, err := j.Step(context.Background(), args)
					runtime.GOMAXPROCS(old)
					require.NoError(t, err, what)
					k := []int{0, 1, 1, 0}[i]
					if want[k] == nil {
						want[k] = got
					}
					require.NoError(t, differ(got, want[k], 0), "%s%d threads, step %d", what, threads, i)
				}
				require.NoError(t, j.Close())
			}
		}
	})
}

// TestDonations donates the memory of inputs to results of the same type, in different
// pairings.
func TestDonations(t *testing.T) {
	donated, inPlace := 0, 0
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		in := p.Inputs(p.Program, seed)
		for _, c := range runnable(t, p) {
			want, err := run(p.Program, c.config(), in)
			require.NoError(t, err)
			plan, err := gomoe.Compile(t.Context(), p.Program, c.config())
			require.NoError(t, err)
			for shift := range len(plan.Out) {
				cfg := c.config()
				cfg.Donate = donations(plan, shift)
				if len(cfg.Donate) == 0 {
					continue
				}
				what := fmt.Sprintf("seed %d: %s -donate %v\n%s", seed, c, cfg.Donate, p)
				j, err := gomoe.Open(t.Context(), p.Program, cfg)
				require.NoError(t, err, what)
				for _, d := range j.Plan().Donated {
					donated++
					if d.InPlace {
						inPlace++
					}
				}
				var last []array.Array
				for range 3 {
					got, err := j.Step(context.Background(), in)
					require.NoError(t, err, what)
					require.NoError(t, differ(got, want, 0), what)
					if last != nil {
						require.NoError(t, differ(last, want, 0), "%s\na later step wrote over results", what)
					}
					last = got
				}
				require.NoError(t, j.Close())
			}
		}
	})
	t.Logf("%d donations, %d of them in place", donated, inPlace)
}

// donations pairs results with inputs that fit, beginning with result number shift.
func donations(p *lowering.Plan, shift int) map[string]int {
	pairs := map[string]int{}
	for k := range p.Out {
		o := (k + shift) % len(p.Out)
		i := slices.IndexFunc(p.In, func(in lowering.Port) bool {
			_, taken := pairs[in.Name]
			return !taken && in.Type.Equal(p.Out[o].Type) && in.Spec.Equal(p.Out[o].Spec)
		})
		if i >= 0 {
			pairs[p.In[i].Name] = o
		}
	}
	return pairs
}

// TestMemory checks the plan's memory: buffers that are in use at the same time do not
// overlap, everything lies in the arena, and the report's sums are right.
func TestMemory(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		for _, c := range runnable(t, p) {
			plan, err := gomoe.Compile(t.Context(), p.Program, c.config())
			require.NoError(t, err)
			what := fmt.Sprintf("seed %d: %s\n%s", seed, c, plan)
			var temps []lowering.Buffer
			for _, b := range plan.Bufs {
				if b.Storage != lowering.Temp || b.Def < 0 || b.Type.Bytes() == 0 {
					continue
				}
				require.LessOrEqual(t, b.Offset+b.Type.Bytes(), plan.Arena, what)
				for _, o := range temps {
					apart := o.Last < b.Def || b.Last < o.Def || o.Offset+o.Type.Bytes() <= b.Offset || b.Offset+b.Type.Bytes() <= o.Offset
					require.True(t, apart, what)
				}
				temps = append(temps, b)
			}
			again, err := gomoe.Compile(t.Context(), p.Program, c.config())
			require.NoError(t, err)
			require.Equal(t, plan.Hash(), again.Hash(), "one program, two plans\n%s", what)
			r := plan.Report(1)
			require.NotEmpty(t, r.String())
			require.Equal(t, r.Mem.Total, r.Mem.Inputs+r.Mem.Results+r.Mem.Arena+r.Mem.Kept+r.Mem.Scratch+r.Mem.Workspace, what)
			require.LessOrEqual(t, r.Mem.Peak.Temps, r.Mem.Arena, what)
			require.LessOrEqual(t, r.Mem.Peak.Live, r.Mem.Total, what)
			var live int64
			for _, b := range r.Mem.Buffers {
				if b.AtPeak {
					live += b.Bytes
				}
			}
			require.Equal(t, r.Mem.Peak.Live, live, what)
		}
	})
}
