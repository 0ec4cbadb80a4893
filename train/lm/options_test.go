package lm

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/internal/memory"
)

// What a model is said to need is no more than what its plan takes, and no less than a sixteenth.
func TestNeeds(t *testing.T) {
	for _, flags := range []string{"-width 64", "-width 64 -mesh= -batch 64", "-width 128 -mesh ep=4 -zero weights", "-width 64 -dtype bf16 -microbatches 2"} {
		args, _ := tiny(t, strings.Fields(flags)...)
		c, o, _ := setup(t, args...)
		p, err := c.step(o).Trace(o.Mesh)
		require.NoError(t, err)
		cfg, err := p.Placed(o.Config(o.Mesh))
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
		require.NoError(t, err)
		size := c.Model.Size()
		if need, takes := o.needs(size, o.Mesh)-planBytes*float64(size.Layers), float64(plan.Report(1).Mem.Total); need > takes || need < takes/16 {
			t.Errorf("%s: at least %.0f bytes are said to be needed, of which the plan takes %.0f", flags, need, takes)
		}
	}
}

// What does not fit is refused by the flag that makes it so, and the flags stay as they are.
func TestCheckMemory(t *testing.T) {
	args, _ := tiny(t, "-width", "4096", "-batch", "16")
	c, o, _ := setup(t, args...)
	err := c.checkMemory(o, o.Mesh, 4, memory.Limit{Bytes: 1 << 20, By: "a limit"})
	require.ErrorContains(t, err, "-width 4096: the model needs at least ")
	require.ErrorContains(t, err, " for the 4 ranks in this process, and 1.0 MiB can be had (a limit)")
	require.Equal(t, []int{4096, 16}, []int{c.Model.(*toy).width, o.Rows})
	require.NoError(t, c.checkMemory(o, o.Mesh, 4, memory.Limit{Bytes: math.MaxInt64}))
}

// A message recommends a number that there is.
func TestMultiple(t *testing.T) {
	for _, c := range []struct{ n, of, want int }{{1, 8, 8}, {8, 8, 8}, {9, 8, 16}, {math.MaxInt, 8, math.MaxInt - 7}, {math.MaxInt - 8, 8, math.MaxInt - 7}} {
		if got := Multiple(c.n, c.of); got != c.want {
			t.Errorf("Multiple(%d, %d) = %d, want %d", c.n, c.of, got, c.want)
		}
	}
}
