package metal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal"
	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// emulated returns a GPU that is closed when the test ends, with nothing against it.
func emulated(t *testing.T, o metal.Emulation) *metal.Device {
	t.Helper()
	d, err := metal.Emulated(t.Context(), o)
	clangtest.Needed(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func trace(t *testing.T, fn func(*graph.Tracer) []*graph.Value) *graph.Program {
	t.Helper()
	p, err := graph.Trace("p", fn)
	require.NoError(t, err)
	return p
}

// model is Σ (x·w + b)² over the rows of x, with instructions for both: sort is the host's.
func model(t *testing.T, rows, columns int) *graph.Program {
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, w, b := tr.Input("x", graph.F32, rows, columns), tr.Input("w", graph.F32, columns), tr.Input("b", graph.F32, columns)
		y := primitives.Add(primitives.Mul(x, primitives.BroadcastInDim(w, x.Type.Shape, 1)), primitives.BroadcastInDim(b, x.Type.Shape, 1))
		s, _ := primitives.Sort(y, 1)
		next := primitives.Sub(w, primitives.Mul(b, w))
		return []*graph.Value{primitives.ReduceSum(primitives.Mul(s, y)).Named("loss"), primitives.Exp(y).Named("y"), next.Named("next")}
	})
}

// random returns floats in [-1, 1) that have few digits.
func random(seed uint64, shape ...int) array.Array {
	a := array.New(graph.T(graph.F32, shape...))
	r := rand.New(rand.NewPCG(seed, 3))
	x := array.Data[float32](a)
	for i := range x {
		x[i] = float32(r.IntN(256)-128) / 128
	}
	return a
}

func onTwo(d runtime.Device, donate map[string]int) gomoe.Config {
	return gomoe.Config{Mesh: sharding.Mesh{Axes: []sharding.Axis{{Name: "dp", Size: 2}}}, Place: map[string]sharding.Spec{"x": sharding.Split("dp")},
		Donate: donate, Options: runtime.Options{Device: d}}
}

// close fails unless got is within 1e-5 of want, relative to the larger of 1 and want.
func near(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	x, y := got.Float64s(), want.Float64s()
	require.Len(t, x, len(y), what)
	for i := range x {
		if !(math.Abs(x[i]-y[i]) <= 1e-5*max(1, math.Abs(y[i]))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, x[i], y[i])
		}
	}
}

// Two ranks train with host and GPU in turns, over donated weights, and get what the host
// alone gets; nothing is left behind. Their parts have 4 and 4 rows, 4 and 3, or 1 and none.
func TestSteps(t *testing.T) {
	for _, rows := range []int{8, 7, 1} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) { testSteps(t, rows) })
	}
}

func testSteps(t *testing.T, rows int) {
	p := model(t, rows, 40)
	for _, o := range []metal.Emulation{{}, {Order: metal.Reverse}, {Order: metal.Random, Seed: 7}, {Eager: true}} {
		d := emulated(t, o)
		none := d.Live()
		j, err := gomoe.Open(t.Context(), p, onTwo(d, map[string]int{"w": 2}))
		require.NoError(t, err)
		h, err := gomoe.Open(t.Context(), p, onTwo(nil, map[string]int{"w": 2}))
		require.NoError(t, err)
		use := j.Plan().Report(1).Device
		require.Positive(t, use.On)
		require.Positive(t, use.Host, "%s", j.Plan())
		require.Contains(t, j.Plan().String(), "◆")
		w := [2]array.Array{random(1, 40), random(1, 40)}
		for step := range uint64(4) {
			var out [2][]array.Array
			for i, job := range []*gomoe.Job{j, h} {
				out[i], err = job.Step(t.Context(), map[string]array.Array{"x": random(step, rows, 40), "w": w[i], "b": random(9, 40)})
				require.NoError(t, err)
				w[i] = out[i][2]
			}
			for i := range out[0] {
				near(t, fmt.Sprintf("%+v: step %d, result %d of\n%s", o, step, i, j.Plan()), out[0][i], out[1][i])
			}
		}
		require.NoError(t, j.Close())
		require.NoError(t, h.Close())
		left := map[string]int{}
		for class, n := range d.Live() {
			if n -= none[class]; n != 0 {
				left[class] = n
			}
		}
		delete(left, "MTLLibrary") // which stay with the device
		delete(left, "MTLFunction")
		delete(left, "MTLComputePipelineState")
		require.Empty(t, left, "objects left behind")
	}
}

// What looks at every instruction looks at the GPU's, too, and changes no result.
func TestWatched(t *testing.T) {
	p := model(t, 8, 40)
	in := map[string]array.Array{"x": random(1, 8, 40), "w": random(2, 40), "b": random(9, 40)}
	want, err := gomoe.Run(t.Context(), p, onTwo(nil, nil), in)
	require.NoError(t, err)
	cfg := onTwo(emulated(t, metal.Emulation{}), nil)
	cfg.Poison, cfg.Finite = true, true
	got, err := gomoe.Run(t.Context(), p, cfg, in)
	require.NoError(t, err)
	for i := range want {
		near(t, fmt.Sprintf("result %d", i), got[i], want[i])
	}
	in["b"] = array.New(graph.T(graph.F32, 40))
	array.Data[float32](in["b"])[7] = 200 // whose exponential is infinite
	_, err = gomoe.Run(t.Context(), p, cfg, in)
	var nf *runtime.NotFiniteError
	require.ErrorAs(t, err, &nf)
	require.True(t, math.IsInf(nf.Value, 1))
}

// Every segment is on the rank's own track, between being handed over and being waited for.
func TestTrace(t *testing.T) {
	var buf bytes.Buffer
	cfg := onTwo(emulated(t, metal.Emulation{}), nil)
	cfg.Trace = runtime.NewTrace(&buf)
	j, err := gomoe.Open(t.Context(), model(t, 8, 40), cfg)
	require.NoError(t, err)
	defer j.Close()
	_, err = j.Step(t.Context(), map[string]array.Array{"x": random(1, 8, 40), "w": random(2, 40), "b": random(9, 40)})
	require.NoError(t, err)
	require.NoError(t, cfg.Trace.Close())
	var doc struct {
		TraceEvents []struct {
			Name, Cat string
			Tid       int
			Ts, Dur   float64
			Args      map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(buf.Bytes(), &doc))
	tracks, segments := map[string]int{}, map[int]int{}
	for _, e := range doc.TraceEvents {
		if e.Name == "thread_name" {
			tracks[e.Args["name"].(string)] = e.Tid
		}
		if e.Cat == "segment" {
			segments[e.Tid]++
			require.NotEmpty(t, e.Args["instructions"])
		}
	}
	use := j.Plan().Report(1).Device
	for _, name := range []string{"rank 0 metal", "rank 1 metal"} {
		require.Contains(t, tracks, name)
		require.Equal(t, use.Segments, segments[tracks[name]], name)
	}
}

// A command buffer that fails is reported at its first instruction, with Metal's text, and
// the job has failed.
func TestCommandBufferFails(t *testing.T) {
	d := emulated(t, metal.Emulation{})
	p := model(t, 8, 40)
	j, err := gomoe.Open(t.Context(), p, onTwo(d, nil))
	require.NoError(t, err)
	defer j.Close()
	in := map[string]array.Array{"x": random(1, 8, 40), "w": random(2, 40), "b": random(9, 40)}
	_, err = j.Step(t.Context(), in)
	require.NoError(t, err)
	d.FailCommandBuffer(1, "Caused GPU Timeout Error")
	_, err = j.Step(t.Context(), in)
	require.ErrorContains(t, err, "Caused GPU Timeout Error")
	require.ErrorContains(t, err, "instruction ")
	var e *runtime.Error
	require.ErrorAs(t, err, &e)
	require.True(t, j.Plan().Instrs[e.Index].On)
	_, err = j.Step(t.Context(), in)
	require.NoError(t, err, "all ranks are in one process, so the next step runs")
}

// What kernels find in their arguments is the host's error, at their instruction, and only
// in the step that has it.
func TestFault(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.Embedding(tr.Input("w", graph.F32, 5, 4), tr.Input("ids", graph.I32, 6))}
	})
	d := emulated(t, metal.Emulation{})
	run := func(dev runtime.Device, ids ...int32) error {
		cfg := gomoe.Config{}
		cfg.Device = dev
		a, err := array.Of(ids, 6)
		require.NoError(t, err)
		_, err = gomoe.Run(t.Context(), p, cfg, map[string]array.Array{"w": random(1, 5, 4), "ids": a})
		return err
	}
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: d})
	require.NoError(t, err)
	require.True(t, plan.Instrs[0].On, "%s", plan)
	require.NoError(t, run(d, 0, 1, 2, 3, 4, 0))
	for _, ids := range [][]int32{{0, 1, 5, 2, 3, 9}, {-1, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, math.MaxInt32}} {
		want := run(nil, ids...)
		require.Error(t, want)
		require.EqualError(t, run(d, ids...), want.Error())
	}
	require.NoError(t, run(d, 4, 3, 2, 1, 0, 4))
}

// A context that has ended compiles nothing.
func TestOpenEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user has had enough")
	cancel(cause)
	if _, err := metal.Emulated(ctx, metal.Emulation{}); !errors.Is(err, metal.ErrNoCompiler) {
		require.ErrorIs(t, err, cause)
	}
	d := emulated(t, metal.Emulation{})
	plan, err := gomoe.Compile(t.Context(), model(t, 8, 40), gomoe.Config{Target: d})
	require.NoError(t, err)
	_, err = d.Open(ctx, plan, 0)
	require.ErrorIs(t, err, cause)
}

// Where there is no Metal the error says so, and what does as well.
func TestNoMetal(t *testing.T) {
	if goruntime.GOOS == "darwin" {
		t.Skip("a Mac has Metal")
	}
	_, err := metal.Open(t.Context())
	require.ErrorIs(t, err, metal.ErrNoMetal)
	require.True(t, strings.HasPrefix(err.Error(), fmt.Sprintf("metal: no GPU on %s/%s; -device metal-emulated runs the same kernels on the processor: ", goruntime.GOOS, goruntime.GOARCH)), err.Error())
}

// Without a compiler there is no emulated GPU, and the error says what to install.
func TestNoCompiler(t *testing.T) {
	t.Setenv("GOMOE_CLANG", "no-such-clang")
	_, err := metal.Emulated(t.Context(), metal.Emulation{})
	require.ErrorIs(t, err, metal.ErrNoCompiler)
	require.ErrorContains(t, err, "install clang")
}
