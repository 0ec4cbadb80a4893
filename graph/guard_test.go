package graph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// toyWrong is a primitive whose Infer has mistakes.
type toyWrong struct{ Mode string }

func (toyWrong) Name() string { return "wrong" }

func (w toyWrong) Infer(in []Type) ([]Type, error) {
	switch w.Mode {
	case "index":
		return in[3:4], nil
	case "nil":
		return []Type{{DType: (*Value)(nil).Type.DType}}, nil
	case "panic":
		panic("mine")
	}
	return nil, nil
}

// Mistakes in a primitive's Infer are errors that name it, the model's line and its own.
func TestInferWrong(t *testing.T) {
	for mode, want := range map[string]string{
		"index": `^guard_test.go:\d+: wrong\(f32\[2\]\): the primitive's Infer panics at guard_test.go:\d+: runtime error: slice bounds out of range`,
		"nil":   `^guard_test.go:\d+: wrong\(f32\[2\]\): the primitive's Infer panics at guard_test.go:\d+: .*nil pointer`,
		"panic": `^guard_test.go:\d+: wrong\(f32\[2\]\): the primitive's Infer panics at guard_test.go:\d+: mine$`,
		"none":  `^guard_test.go:\d+: wrong\(f32\[2\]\): Infer returns no result, want one$`,
	} {
		_, err := Trace("p", func(tr *Tracer) []*Value {
			return []*Value{Apply1(toyWrong{mode}, tr.Input("x", F32, 2))}
		})
		require.Error(t, err)
		require.Regexp(t, want, err.Error())
	}
}

// A value of another trace that has no name is told by the line that made it.
func TestUnnamedOfAnotherTrace(t *testing.T) {
	_, err := Trace("p", func(tr *Tracer) []*Value {
		y := Apply1(toyUnary{"neg"}, tr.Input("x", F32, 2))
		_, err := Trace("q", func(*Tracer) []*Value { return []*Value{y} })
		require.ErrorContains(t, err, "value f32[2] of neg (guard_test.go:")
		require.ErrorContains(t, err, ") belongs to another trace; pass it as an input")
		return nil
	})
	require.NoError(t, err)
}
