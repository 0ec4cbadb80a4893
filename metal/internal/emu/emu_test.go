package emu

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compiler returns a compiler, or skips the test.
func compiler(t testing.TB) *Compiler {
	t.Helper()
	c, err := Find()
	if err != nil {
		t.Skip(err)
	}
	return c
}

// library builds a source and opens it.
func library(t testing.TB, source string, o BuildOptions) *Library {
	t.Helper()
	path, err := compiler(t).Build(t.Context(), prelude+source, o)
	require.NoError(t, err)
	l, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// prelude is what every test's source begins with; their first line is 1.
const prelude = "#include <metal_stdlib>\nusing namespace metal;\n#line 1 \"test.metal\"\n"

// floats returns a buffer of n floats, NaN.
func floats(t testing.TB, n int) *Buffer {
	t.Helper()
	b, err := NewBuffer(4 * n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// of returns a buffer with values.
func of(t testing.TB, values ...float32) *Buffer {
	t.Helper()
	b := floats(t, len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(b.Bytes()[4*i:], math.Float32bits(v))
	}
	return b
}

func read(b *Buffer) []float32 {
	out := make([]float32, len(b.Bytes())/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
	}
	return out
}

func u32(v uint32) Binding { return Binding{Bytes: binary.LittleEndian.AppendUint32(nil, v)} }

func orders() []Order { return []Order{Forward, Reverse, Random} }

// bothBuilds runs a test with and without the leader.
func bothBuilds(t *testing.T, test func(t *testing.T, o BuildOptions)) {
	for _, leader := range []bool{false, true} {
		name := "distributed"
		if leader {
			name = "leader"
		}
		t.Run(name, func(t *testing.T) { test(t, BuildOptions{Leader: leader, Lint: true}) })
	}
}

// fails runs a launch that must fail with an error that has every one of want.
func fails(t *testing.T, l *Library, launch Launch, want ...string) {
	t.Helper()
	err := l.Run(t.Context(), launch)
	require.Error(t, err)
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("order %s: %v\nwant in it: %s", launch.Order, err, w)
		}
	}
}
