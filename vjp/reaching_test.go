package vjp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// The derivative of the last equations of a trace looks at no others, as long as integers are the only other values
// that they read.
func TestReaching(t *testing.T) {
	_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 2)
		add := func(a, b *graph.Value) *graph.Value { return graph.Apply1(graph.AddAnyOp{}, a, b) }
		w := add(x, x)
		for range 100 {
			x = add(x, w)
		}
		before := len(tr.Eqns())
		y := add(w, w)
		z := add(y, w)
		require.Equal(t, tr.Eqns()[before:], reaching(tr.Eqns(), []*graph.Value{z}, []*graph.Value{w}))
		require.Len(t, reaching(tr.Eqns(), []*graph.Value{z}, []*graph.Value{tr.Program().In[0]}), before+2)
		require.Empty(t, reaching(tr.Eqns(), []*graph.Value{w}, []*graph.Value{w}))
		return []*graph.Value{z}
	})
	require.NoError(t, err)
}
