package graph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParamsOf(t *testing.T) {
	p, err := ParamsOf[struct{ Axis, K int }](toyTopK{K: 3, Axis: 1})
	require.NoError(t, err)
	require.Equal(t, struct{ Axis, K int }{1, 3}, p)

	_, err = ParamsOf[struct{ Axes []int }](toyTopK{})
	require.EqualError(t, err, "graph: primitive top_k has no parameter axes")
	_, err = ParamsOf[struct{ K float64 }](toyTopK{})
	require.EqualError(t, err, "graph: parameter k of primitive top_k is of type int, not float64")
}

func TestWithParams(t *testing.T) {
	p, err := WithParams(toyTopK{K: 3, Axis: 1}, struct{ K int }{5})
	require.NoError(t, err)
	require.Equal(t, toyTopK{K: 5, Axis: 1}, p)

	p, err = WithParams(toyUnary{"neg"}, struct{}{})
	require.NoError(t, err)
	require.Equal(t, "neg", p.Name(), "unexported fields stay")

	pointer := &toyTopK{K: 3}
	p, err = WithParams(pointer, struct{ K int }{5})
	require.NoError(t, err)
	require.Equal(t, &toyTopK{K: 5}, p)
	require.Equal(t, 3, pointer.K)

	_, err = WithParams(toyTopK{}, struct{ N int }{1})
	require.EqualError(t, err, "graph: primitive top_k has no parameter n")
}
