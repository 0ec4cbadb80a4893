package graph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// toyBad has a name that the test gives, and no parameters.
type toyBad struct{ name string }

func (b toyBad) Name() string                  { return b.name }
func (toyBad) Infer(in []Type) ([]Type, error) { return in, nil }

type toyMap struct {
	N int
	B map[string]int
}

func (toyMap) Name() string                    { return "map" }
func (toyMap) Infer(in []Type) ([]Type, error) { return in, nil }

type toyPointer struct{ toyInner }
type toyInner struct{ P *int }

func (toyPointer) Name() string                    { return "pointer" }
func (toyPointer) Infer(in []Type) ([]Type, error) { return in, nil }

type toyNumber int

func (toyNumber) Name() string                    { return "number" }
func (toyNumber) Infer(in []Type) ([]Type, error) { return in, nil }

// A primitive that no text can hold is refused where it is applied.
func TestApplyWritten(t *testing.T) {
	for _, tt := range []struct {
		p    Primitive
		want string
	}{
		{toyBad{"bad name!"}, `bad name!(f32[2]): the primitive's name is "bad name!", want a letter or _ and then letters, digits or _`},
		{toyBad{""}, `the primitive's name is "", want a letter`},
		{toyOdd{}, "odd(f32[2]): field F is a func(), which no text can hold; want an integer, a number, a boolean, a string, a graph.DType, a *graph.Program, or a slice of these"},
		{toyMap{}, "map(f32[2]): field B is a map[string]int, which no text can hold"},
		{toyPointer{}, "pointer(f32[2]): field P is a *int, which no text can hold"},
		{toyNumber(3), "number(f32[2]): the primitive is a graph.toyNumber, want a struct"},
	} {
		_, err := Trace("p", func(tr *Tracer) []*Value {
			return []*Value{Apply1(tt.p, tr.Input("x", F32, 2))}
		})
		require.ErrorContains(t, err, tt.want)
		require.ErrorContains(t, err, "written_test.go:")
	}
	for _, p := range []Primitive{toyAll{}, &toyShare{}, toyKernel{func() string { return "k" }}} {
		require.NoError(t, written(p))
	}
}
