package gomoe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
)

// doubling returns n programs, each of which calls the one before it twice: the last one has 2 to the power of n-1
// equations.
func doubling(t *testing.T, n int, loop bool) *graph.Program {
	t.Helper()
	text := "program p0(x f32[2]) {\n\ty f32[2] = sin(x)\n\treturn y\n}\n"
	for i := 1; i < n; i++ {
		text += fmt.Sprintf("program p%d(x f32[2]) {\n\ta f32[2] = remat(x) fn=p%d\n\tb f32[2] = remat(a) fn=p%d\n\treturn b\n}\n", i, i-1, i-1)
	}
	if loop {
		text += fmt.Sprintf("program l(x f32[2]) {\n\ty f32[2] = scan(x) length=2 carry=1 body=program b(x f32[2]) {\n\t\tz f32[2] = remat(x) fn=p%d\n\t\treturn z\n\t}\n\treturn y\n}\n", n-1)
	}
	p, err := gomoe.Parse("doubling.graph", text)
	require.NoError(t, err)
	return p
}

// Calls that would make too many equations are an error at once, at the call with which they are too many, also in
// the body of a loop.
func TestCallsThatMultiply(t *testing.T) {
	for _, n := range []int{20, 30, 100} {
		_, err := gomoe.Compile(t.Context(), doubling(t, n, false), gomoe.Config{})
		require.EqualError(t, err, fmt.Sprintf("doubling.graph:97: remat(f32[2]): with this call the program p%d has more than 262144 equations, as calls of calls multiply; "+
			"call it less often, or write the repetition as a loop with scan, whose body counts once", n-1))
	}
	_, err := gomoe.Compile(t.Context(), doubling(t, 30, true), gomoe.Config{})
	require.ErrorContains(t, err, "doubling.graph:97: remat(f32[2]): with this call")
}

// Compiling ends when its context does, before it and during it.
func TestCompileEndsWithContext(t *testing.T) {
	why := errors.New("why")
	ended, end := context.WithCancelCause(t.Context())
	end(why)
	for _, loop := range []bool{false, true} {
		p := doubling(t, 18, loop)
		_, err := gomoe.Compile(ended, p, gomoe.Config{})
		require.ErrorIs(t, err, why)
		_, err = gomoe.Place(ended, p, gomoe.Config{})
		require.ErrorIs(t, err, why)
		_, err = gomoe.Open(ended, p, gomoe.Config{})
		require.ErrorIs(t, err, why)
		for _, after := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 200 * time.Millisecond} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), after, why)
			_, err = gomoe.Compile(ctx, p, gomoe.Config{})
			cancel()
			require.ErrorIs(t, err, why, after)
		}
	}
}
