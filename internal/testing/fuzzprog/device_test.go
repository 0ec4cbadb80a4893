package fuzzprog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/testing/late"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// some leaves random instructions to the host, the same ones on all ranks.
func some(seed uint64, of int) func(p *lowering.Plan, i int) string {
	return func(_ *lowering.Plan, i int) string {
		if rand.New(rand.NewPCG(seed, uint64(i))).IntN(4) >= of {
			return "the toss of a coin"
		}
		return ""
	}
}

// TestDevice runs plans in which host and device take turns on the same memory. The bits
// are those of the host alone, however late the device is, in every step.
func TestDevice(t *testing.T) {
	var on, host, waits, segments int
	eachSeed(t, func(t *testing.T, seed uint64) {
		p := sample(t, seed)
		in, other := p.Inputs(p.Program, seed), p.Inputs(p.Program, seed+1)
		for k, c := range runnable(t, p) {
			cfg := c.config()
			cfg.Keep = gomoe.Off
			plain, err := gomoe.Compile(t.Context(), p.Program, cfg)
			require.NoError(t, err)
			if k%2 == 1 {
				cfg.Donate = donations(plain, int(seed)%len(plain.Out))
			}
			var want [2][]array.Array
			for i, args := range []arrays{in, other} {
				want[i], err = run(p.Program, cfg, args)
				require.NoError(t, err)
			}
			d := &late.Device{Why: some(seed, 1+int(seed+uint64(k))%4), Beside: raced}
			if k%3 > 0 { // chains are cut too
				toss := some(seed+1, 2)
				d.Foreign = func(p *lowering.Plan, i int) bool { return toss(p, i) != "" }
			}
			cfg.Options = runtime.Options{Device: d}
			j, err := gomoe.Open(t.Context(), p.Program, cfg)
			require.NoError(t, err)
			use := j.Plan().Report(1).Device
			on, host, waits, segments = on+use.On, host+use.Host, waits+use.Waits, segments+use.Segments
			what := fmt.Sprintf("seed %d: %s\n%s\n%v", seed, c, p, j.Plan())
			for step := range 4 {
				got, err := j.Step(context.Background(), []arrays{in, other}[step%2])
				require.NoError(t, err, what)
				require.NoError(t, differ(got, want[step%2], 0), "step %d of %s", step, what)
			}
			require.NoError(t, j.Close())
			uses := d.Count()
			ranks := j.Plan().Mesh.Ranks()
			require.Equal(t, 4*ranks*use.Segments, uses.Commit, "segments of %s", what)
			require.Equal(t, 4*ranks*use.Waits, uses.Waits, "waits of %s", what)
			require.Equal(t, uses.Open, uses.Closed, "queues of %s", what)
			require.GreaterOrEqual(t, uses.Open, ranks, "queues of %s", what)
		}
	})
	t.Logf("%d instructions on devices and %d on hosts, %d segments, %d waits", on, host, segments, waits)
	if on == 0 || host == 0 || waits == 0 {
		t.Error("host and device do not take turns")
	}
}
