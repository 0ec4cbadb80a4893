package nn

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

func trace(o Options, fn func(s *Scope)) ([]Param, error) {
	var params []Param
	_, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
		s := New(t, o)
		fn(s)
		params = s.Params()
		return []*graph.Value{primitives.Full(t, 1, graph.F32)}
	})
	return params, err
}

// A parameter that is declared twice is one parameter.
func TestTied(t *testing.T) {
	params, err := trace(Options{}, func(s *Scope) {
		a := s.In("a", "x").Param("w", "w", Init{}, nil, 2, 3)
		if b := s.In("a", "x").Param("w", "w", Init{}, nil, 2, 3); b != a {
			t.Error("the second declaration is another value")
		}
	})
	require.NoError(t, err)
	require.Len(t, params, 1)
	if p := params[0]; p.Name != "a.w" || p.GGUF != "x.w" || !p.Type.Equal(graph.T(graph.F32, 2, 3)) {
		t.Errorf("%+v", p)
	}
}

func TestMistakes(t *testing.T) {
	for want, fn := range map[string]func(s *Scope){
		"parameter a.w has shape [3 2], and was declared before with [2 3]": func(s *Scope) {
			s.In("a", "").Param("w", "", Init{}, nil, 2, 3)
			s.In("a", "").Param("w", "", Init{}, nil, 3, 2)
		},
		`parameter w of shape [2] is placed by ["ep" "tp"], want at most one axis per dimension`: func(s *Scope) {
			s.Param("w", "", Init{}, []string{"ep", "tp"}, 2)
		},
		`linear: split "diagonal", want "columns", "rows" or nothing`: func(s *Scope) {
			Linear{Out: 2, Split: "diagonal"}.Apply(s, s.Tracer().Input("x", graph.F32, 2, 3))
		},
	} {
		_, err := trace(Options{}, fn)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "scope_test.go:") {
			t.Errorf("error %v\nwant %s, at a line of this file", err, want)
		}
	}
	missing := errors.New("no such tensor")
	_, err := trace(Options{Stored: func(Param) (Form, error) { return Form{}, missing }}, func(s *Scope) { s.Param("w", "", Init{}, nil, 2) })
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), "parameter w: no such tensor") {
		t.Errorf("error %v", err)
	}
}

// Axes that the mesh lacks split nothing, and parameters that are whole have no placement.
func TestPlaces(t *testing.T) {
	params, err := trace(Options{}, func(s *Scope) {
		s.Param("a", "", Init{}, []string{"ep", "tp"}, 4, 2)
		s.Param("b", "", Init{}, nil, 4)
	})
	require.NoError(t, err)
	m, err := sharding.ParseMesh("dp=2,ep=2")
	require.NoError(t, err)
	places := Places(params, m)
	require.Len(t, places, 1)
	require.Equal(t, "f32[4@ep,2]", places["a"].Format(params[0].Type))
}

// Layers of attention without a step have a whole sequence, as with the zero Step.
func TestWithoutStep(t *testing.T) {
	for _, layer := range []func(s *Scope, x *graph.Value, st *Step) *graph.Value{
		Attention{Heads: 2, KVHeads: 1, Width: 4}.Apply,
		MLA{Heads: 2, Plain: 2, Rotary: 2, Value: 2, Latent: 4}.Apply,
	} {
		text := func(st *Step) string {
			p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
				return []*graph.Value{layer(New(t, Options{}), t.Input("x", graph.F32, 1, 3, 8), st)}
			})
			require.NoError(t, err)
			return p.String()
		}
		require.Equal(t, text(&Step{}), text(nil))
	}
}
