package metaltest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// looped traces a loop over layers of weights, each of which runs a loop over biases. Only the
// bodies have products and exponentials, and only the program around them has a tanh.
func looped(t *testing.T) *graph.Program {
	t.Helper()
	p, err := graph.Trace("looped", func(tr *graph.Tracer) []*graph.Value {
		x := primitives.Tanh(tr.Input("x", graph.F32, 8, 4))
		w, b := tr.Input("w", graph.F32, 3, 4, 4), tr.Input("b", graph.F32, 2, 8, 4)
		out, _ := graph.Scan(graph.ScanParams{}, []*graph.Value{x}, []*graph.Value{w}, func(carry, w []*graph.Value) (next, each []*graph.Value) {
			h := primitives.MatMul(carry[0], w[0])
			inner, _ := graph.Scan(graph.ScanParams{}, []*graph.Value{h}, []*graph.Value{b}, func(carry, b []*graph.Value) (next, each []*graph.Value) {
				return []*graph.Value{primitives.Exp(primitives.Sub(b[0], primitives.Square(carry[0])))}, nil
			})
			return inner, nil
		})
		return []*graph.Value{primitives.Tanh(primitives.Tanh(out[0]))}
	})
	require.NoError(t, err)
	return p
}

// The bodies of loops are compared with the host in every iteration.
func TestCheckLoops(t *testing.T) {
	in := map[string]array.Array{}
	p := looped(t)
	for _, v := range p.In {
		a := array.New(v.Type)
		for i := range array.Data[float32](a) {
			array.Data[float32](a)[i] = float32(i*7919%101)/101 - 0.5
		}
		in[v.Name] = a
	}
	Check(t, p, gomoe.Config{Optimize: gomoe.Off}, in, Options{Instructions: []string{"tanh", "dot_general", "exp"}})
}

// An instruction of a body that the device gets wrong is reported with its name and types.
func TestCheckLoopsWrong(t *testing.T) {
	cfg := gomoe.Config{Optimize: gomoe.Off}
	o := Options{Instructions: []string{"exp"}}
	bodies := []string{"if (i < n) y[i] = exp(x[i]);", "if (i < n) y[i] = exp(x[i]) + (i == 3);"}
	if got := outcomeOf(t, looped(t), made{bodies: bodies, body: bodies[0]}, o, cfg); got != "" {
		t.Errorf("right exponentials are reported: %s", got)
	}
	got := outcomeOf(t, looped(t), made{bodies: bodies, index: 1}, o, cfg)
	if n := strings.Count(got, ", exp(f32[8,4]): "); n != 6 || !strings.Contains(got, "element 3 ") {
		t.Errorf("a wrong element is reported %d times, want 6, once for each iteration:\n%s", n, got)
	}
}
