package primitives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

func linearOf(x, w *graph.Value) *graph.Value {
	graph.Helper()
	return primitives.MatMul(x, w)
}

// A nil argument of a builder, and a value of another trace, are errors at the user's line.
// A nil that the model itself uses is a panic, as in any Go code.
func TestNilArguments(t *testing.T) {
	var stray *graph.Value
	_, err := graph.Trace("other", func(tr *graph.Tracer) []*graph.Value {
		stray = tr.Input("stray", graph.F32, 2, 2)
		return nil
	})
	require.NoError(t, err)
	for _, tt := range []struct {
		want string
		fn   func(tr *graph.Tracer, x *graph.Value)
	}{
		{`: primitives.MatMul uses a nil pointer: an argument is nil, want a value of this trace`, func(_ *graph.Tracer, x *graph.Value) { primitives.MatMul(x, nil) }},
		{`: primitives.MatMul uses a nil pointer`, func(_ *graph.Tracer, x *graph.Value) { primitives.MatMul(nil, x) }},
		{`: primitives_test.linearOf uses a nil pointer`, func(_ *graph.Tracer, x *graph.Value) { linearOf(x, nil) }},
		{`: primitives.ReduceSum uses a nil pointer`, func(*graph.Tracer, *graph.Value) { primitives.ReduceSum(nil) }},
		{`: stop_gradient\(\): argument 1 is nil`, func(_ *graph.Tracer, x *graph.Value) { graph.Apply(primitives.StopGradientOp{}, x, nil) }},
		{` \(layers.0.moe\): primitives.MatMul uses a nil pointer`, func(tr *graph.Tracer, x *graph.Value) {
			defer tr.Scope("layers.0")()
			defer tr.Scope("moe")()
			primitives.MatMul(x, nil)
		}},
		{`: value stray f32\[2,2\] belongs to another trace; pass it as an input`, func(_ *graph.Tracer, x *graph.Value) { primitives.MatMul(x, stray) }},
	} {
		_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			tt.fn(tr, tr.Input("x", graph.F32, 2, 2))
			return nil
		})
		var at *graph.Error
		require.ErrorAs(t, err, &at, tt.want)
		require.Regexp(t, `^nil_test\.go:\d+`+tt.want, err.Error())
	}
	var none *graph.Value
	require.Panics(t, func() {
		graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
			return []*graph.Value{{Type: none.Type}}
		})
	})
}
