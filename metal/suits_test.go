package metal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/internal/standin"
	"github.com/gomoe/gomoe/primitives"
)

// with returns an emulated GPU that is closed when the test ends.
func with(t *testing.T, o standin.Options) *metal.Device {
	t.Helper()
	d, err := metal.EmulatedWith(t.Context(), o)
	clangtest.Needed(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// GPUs that lack what the kernels use are refused when they are opened.
func TestOldGPU(t *testing.T) {
	with(t, standin.Options{Family: 7})
	for family, has := range map[int]string{6: "Apple6", 5: "Apple5", -1: "none of Apple's families"} {
		_, err := metal.EmulatedWith(t.Context(), standin.Options{Family: family})
		require.ErrorIs(t, err, metal.ErrNoMetal)
		require.ErrorContains(t, err, "the GPU emulated GPU is of family "+has+", want Apple7 or newer")
	}
}

// A GPU with other simdgroups than the kernels are written for would add wrongly in
// silence. It is refused when the first plan is opened, as pipelines know it.
func TestWidth(t *testing.T) {
	d := with(t, standin.Options{Width: 64})
	plan, err := gomoe.Compile(t.Context(), model(t, 8, 40), gomoe.Config{Target: d})
	require.NoError(t, err)
	_, err = d.Open(t.Context(), plan, 0)
	require.ErrorContains(t, err, "have 64 threads on emulated GPU, want 32")
}

// A plan that needs more memory than the GPU works on well is refused before it runs.
func TestWorkingSet(t *testing.T) {
	p := model(t, 1024, 64)
	for _, c := range []struct {
		bytes int64
		fits  bool
	}{{2 << 20, true}, {1 << 19, false}} {
		d := with(t, standin.Options{Memory: c.bytes})
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: d})
		require.NoError(t, err)
		q, err := d.Open(t.Context(), plan, 0)
		if c.fits {
			require.NoError(t, err, "%+v", plan.Report(1).Mem)
			require.NoError(t, q.Close())
			continue
		}
		require.ErrorContains(t, err, "and emulated GPU can work on 524288 (recommendedMaxWorkingSetSize)")
	}
}

// An array that is longer than the GPU's longest buffer is an error that names both.
func TestBufferLength(t *testing.T) {
	d := with(t, standin.Options{Memory: 1 << 20})
	_, _, err := d.Alloc(1<<20 + 1)
	require.EqualError(t, err, "mtl: buffer: 1048577 bytes, and the longest buffer of emulated GPU has 1048576 (maxBufferLength); split the array, or place it on more ranks")
}

// The kernels are compiled without fast math, which would make b of (a + b) - a.
func TestNoFastMath(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		a, b := tr.Input("a", graph.F32, 4), tr.Input("b", graph.F32, 4)
		return []*graph.Value{primitives.Sub(primitives.Add(a, b), a)}
	})
	a, err := array.Of([]float32{1 << 30, 1, 1 << 25, 3}, 4)
	require.NoError(t, err)
	b, err := array.Of([]float32{1, 1, 1, 1}, 4)
	require.NoError(t, err)
	cfg := gomoe.Config{}
	cfg.Device = emulated(t, metal.Emulation{})
	got, err := gomoe.Run(t.Context(), p, cfg, map[string]array.Array{"a": a, "b": b})
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1, 0, 1}, array.Data[float32](got[0]))
}
