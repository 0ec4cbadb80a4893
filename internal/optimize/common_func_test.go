package optimize

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// told is an operation that is told apart by a function alone.
type told struct{ f func() int }

func (told) Name() string                                { return "told" }
func (told) Infer(in []graph.Type) ([]graph.Type, error) { return in, nil }

// Operations with functions are not merged: nothing says that the functions are equal.
func TestCommonFunctions(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		x := tr.Input("x", graph.F32, 1)
		return []*graph.Value{graph.Apply1(told{func() int { return 1 }}, x), graph.Apply1(told{func() int { return 2 }}, x)}
	})
	require.NoError(t, err)
	p, err = common(p)
	require.NoError(t, err)
	require.Len(t, p.Eqns, 2)
}
