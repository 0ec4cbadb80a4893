package gomoe_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
)

// Devices have names, and an error says why one is not there and what to do.
func TestOpenDevice(t *testing.T) {
	for _, name := range []string{"", "host"} {
		d, err := gomoe.OpenDevice(t.Context(), name)
		require.NoError(t, err)
		require.True(t, d == nil, "%q is a device", name)
	}
	_, err := gomoe.OpenDevice(t.Context(), "gpu")
	require.EqualError(t, err, `device "gpu", want host, metal or metal-emulated`)
	if runtime.GOOS != "darwin" {
		d, err := gomoe.OpenDevice(t.Context(), "metal")
		require.True(t, d == nil)
		require.ErrorContains(t, err, "metal: no GPU on "+runtime.GOOS+"/"+runtime.GOARCH)
		require.ErrorContains(t, err, "; -device metal-emulated runs the same kernels on the processor")
	}
	d, err := gomoe.OpenDevice(t.Context(), "metal-emulated")
	switch {
	case err == nil:
		require.Equal(t, "metal", d.Name())
		require.NoError(t, d.Close())
	case errors.Is(err, errors.ErrUnsupported):
		require.ErrorContains(t, err, "-tags native")
	default:
		require.True(t, strings.Contains(err.Error(), "install clang") || runtime.GOOS != "linux", err.Error())
	}
}

// A plan for a device is made without one, and an overlap that it does not have is refused.
func TestTargetOf(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 4)
		return []*graph.Value{primitives.Mul(x, x)}
	})
	require.NoError(t, err)
	for _, name := range []string{"metal", "metal-emulated"} {
		target, err := gomoe.TargetOf(name)
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: target})
		require.NoError(t, err)
		require.Equal(t, "metal", plan.Target)
		require.NotNil(t, plan.Report(1).Device)
		_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Target: target, Overlap: lowering.OverlapCollectives})
		require.EqualError(t, err, "gomoe: p for device metal with overlap collectives: a device works during collectives by itself; leave overlap off")
	}
}

// A plan that is not complete is to be read, and no job is made of it.
func TestOpenAfter(t *testing.T) {
	p, err := gomoe.Parse("p.graph", "program p(x f32[2]) {\n\ty f32[2] = neg(x)\n\treturn y\n}\n")
	require.NoError(t, err)
	cfg := gomoe.Config{After: "fuse"}
	_, err = gomoe.Compile(t.Context(), p, cfg)
	require.NoError(t, err)
	_, err = gomoe.Open(t.Context(), p, cfg)
	require.EqualError(t, err, "gomoe: p: the plan after pass fuse is not complete and cannot be run; leave Config.After empty")
}
