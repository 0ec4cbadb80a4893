package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/testing/advised"
	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
)

// Arguments and results of 8 MiB lie in large pages.
func TestLargePages(t *testing.T) {
	p := trace(t, func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{toy.Square(tr.Input("x", graph.F64, 1<<20))}
	})
	s := open(t, plan(t, p, toy.Setup{Mesh: "a=1"}), runtime.Options{})
	in, err := toy.Put(s, map[string]array.Array{"x": array.New(graph.T(graph.F64, 1<<20))})
	require.NoError(t, err)
	out, err := s.Run(t.Context(), in)
	require.NoError(t, err)
	for name, a := range map[string]*runtime.Array{"argument": in["x"], "result": out[0]} {
		parts, err := a.Parts()
		require.NoError(t, err)
		if got, want := advised.Huge(parts[0].Bytes()[4<<20:]), advised.System(); got != want {
			t.Errorf("%s: in large pages %v, want %v", name, got, want)
		}
	}
}
