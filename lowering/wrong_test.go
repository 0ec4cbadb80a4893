package lowering_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// wrong is a primitive whose rules have mistakes.
type wrong struct{ Mode string }

func (wrong) Name() string                                { return "wrong" }
func (wrong) Infer(in []graph.Type) ([]graph.Type, error) { return in, nil }

func (w wrong) Shard(c *sharding.Context) (sharding.Decision, error) {
	if w.Mode == "shard panics" {
		panic("mine")
	}
	return sharding.Decision{In: c.In, Out: c.In}, nil
}

func (w wrong) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	kernel := func(*exec.Args) error { return nil }
	switch w.Mode {
	case "panics":
		panic("mine")
	case "without out":
		return e.Emit(lowering.KernelSpec{Op: toy.Op("wrong"), In: in, Kernel: kernel})
	case "without operation":
		return e.Emit(lowering.KernelSpec{In: in, Out: out, Kernel: kernel})
	case "without kernel":
		return e.Emit(lowering.KernelSpec{Op: toy.Op("wrong"), In: in, Out: out})
	case "alias":
		e.Alias(out[0], in[0])
	case "right":
		return e.Emit(lowering.KernelSpec{Op: toy.Op("wrong"), In: in, Out: out, Kernel: kernel})
	}
	return nil
}

// Mistakes in the rules of a primitive are errors without Options.Check, whether its result
// is a result of the program or is read.
func TestWrongRules(t *testing.T) {
	const at = `^wrong_test.go:\d+: wrong\(f32\[2\]\): `
	for mode, want := range map[string]string{
		"without operation": at + "a kernel has no operation, want KernelSpec.Op$",
		"emits nothing":     at + "Lower emits nothing that writes the result; emit a kernel or a collective that has its buffer in Out$",
		"without out":       at + "Lower emits nothing that writes the result",
		"without kernel":    at + "kernel wrong has no function, want KernelSpec.Kernel$",
		"panics":            at + `the primitive's Lower panics at wrong_test.go:\d+: mine$`,
		"shard panics":      at + `the primitive's Shard panics at wrong_test.go:\d+: mine$`,
		"alias":             "",
		"right":             "",
	} {
		for _, read := range []bool{false, true} {
			p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
				y := graph.Apply1(wrong{mode}, tr.Input("x", graph.F32, 2))
				if read {
					y = graph.Apply1(wrong{"right"}, y)
				}
				return []*graph.Value{y}
			})
			require.NoError(t, err)
			a, err := sharding.Propagate(t.Context(), p, sharding.Mesh{}, nil)
			if err == nil {
				_, err = lowering.Lower(t.Context(), a, lowering.Options{})
			}
			if want == "" {
				require.NoError(t, err, mode)
				continue
			}
			require.Error(t, err, mode)
			require.Regexp(t, want, err.Error(), mode)
		}
	}
}
