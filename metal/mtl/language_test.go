package mtl

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/internal/standin"
)

// Libraries have the newest version of the language that the system has, and never the
// default, which depends on how the program was linked.
func TestLanguage(t *testing.T) {
	for system, want := range map[int]Language{14: MSL31, 15: MSL32, 26: MSL32} {
		b := stand(t, standin.Options{System: system})
		if b.rt.language != want {
			t.Errorf("macOS %d: %s, want %s", system, b.rt.language, want)
		}
	}
}

// A system without the language is refused before any device is opened.
func TestOldSystem(t *testing.T) {
	c := clangtest.Compiler(t)
	s, err := standin.Open(t.Context(), c, standin.Options{System: 13})
	require.NoError(t, err)
	defer s.Close()
	_, err = Load(s.Handle(), s.Handle())
	require.ErrorIs(t, err, ErrNoMetal)
	require.EqualError(t, err, "mtl: no Metal: this macOS is older than macOS 14, whose Metal Shading Language 3.1 is the first with bfloat; update macOS")
}

// A version that the system does not have is Metal's error.
func TestLanguageRefused(t *testing.T) {
	b := stand(t, standin.Options{System: 14})
	_, err := b.device.Library(kernels, Options{Language: MSL31})
	require.NoError(t, err)
	_, err = b.device.Library(kernels, Options{Language: MSL32})
	require.ErrorContains(t, err, "invalid language version 0x30002 on macOS 14")
	for system, has := range map[int]bool{15: false, 26: true} {
		b := stand(t, standin.Options{System: system})
		require.Equal(t, has, b.device.HasTensors())
		_, err = b.device.Library(kernels, Options{Language: MSL40})
		if has {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "invalid language version 0x40000 on macOS 15")
		}
	}
}

// Without fast math, arithmetic is done as it is written. Metal's default is fast math.
func TestFastMath(t *testing.T) {
	b := stand(t, standin.Options{})
	const source = `#include <metal_stdlib>
using namespace metal;
kernel void lost(device const float* in [[buffer(0)]], device float* out [[buffer(1)]]) { out[0] = (in[0] + in[1]) - in[0]; }
`
	for fast, want := range map[bool]float32{false: 0, true: 1} {
		in, _ := b.floats(1<<30, 1)
		out, view := b.floats(7)
		l, err := b.device.Library(source, Options{FastMath: fast})
		require.NoError(t, err)
		p, err := b.device.Pipeline(l, "lost")
		require.NoError(t, err)
		b.wait(b.encode(func(cb *CommandBuffer) {
			e := cb.Compute(false)
			e.SetPipeline(p)
			e.SetBuffer(0, in, 0)
			e.SetBuffer(1, out, 0)
			e.Dispatch([3]int{1, 1, 1}, [3]int{1, 1, 1})
			e.End()
		}))
		if view[0] != want {
			t.Errorf("fast math %v: %v, want %v", fast, view[0], want)
		}
	}
}
