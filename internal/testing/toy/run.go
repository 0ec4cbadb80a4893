package toy

import (
	"context"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// Setup configures Plan: the mesh, the placements of inputs in the form of
// sharding.ParseSpec, and the donations. If Chunk is not 0, elementwise instructions are
// fused, with chunks of that many elements. Overlap selects the computation during
// collectives. Target is the plan's device, or nil.
type Setup struct {
	Mesh    string
	Place   map[string]string
	Donate  map[string]int
	Chunk   int
	Overlap lowering.Overlap
	Target  lowering.Target
}

// Plan returns the checked plan of p.
func Plan(p *graph.Program, s Setup) (*lowering.Plan, error) {
	m, err := sharding.ParseMesh(s.Mesh)
	if err != nil {
		return nil, err
	}
	place := map[string]sharding.Spec{}
	for name, text := range s.Place {
		if place[name], err = sharding.ParseSpec(text); err != nil {
			return nil, err
		}
	}
	if p, err = graph.Inline(context.Background(), p); err != nil {
		return nil, err
	}
	a, err := sharding.Propagate(context.Background(), p, m, place)
	if err != nil {
		return nil, err
	}
	return lowering.Lower(context.Background(), a, lowering.Options{Donate: s.Donate, Fuse: s.Chunk > 0, Chunk: s.Chunk, Overlap: s.Overlap, Target: s.Target, Check: true})
}

// Open opens a session of the plan with all of its ranks in this process. The
// communicators need no Close.
func Open(p *lowering.Plan, opts runtime.Options) (*runtime.Session, error) {
	comms, err := engine.Local(p.Mesh.Ranks(), jaccl.Options{})
	if err != nil {
		return nil, err
	}
	return runtime.Open(p, comms, opts)
}

// Put places all inputs on the session's ranks.
func Put(s *runtime.Session, in map[string]array.Array) (map[string]*runtime.Array, error) {
	placed := map[string]*runtime.Array{}
	for name, a := range in {
		d, err := s.Put(name, a)
		if err != nil {
			return nil, err
		}
		placed[name] = d
	}
	return placed, nil
}

// Eval places the inputs, runs one step, and returns the results.
func Eval(ctx context.Context, s *runtime.Session, in map[string]array.Array) ([]array.Array, error) {
	placed, err := Put(s, in)
	if err != nil {
		return nil, err
	}
	out, err := s.Run(ctx, placed)
	if err != nil {
		return nil, err
	}
	res := make([]array.Array, len(out))
	for i, d := range out {
		if res[i], err = d.Get(); err != nil {
			return nil, err
		}
	}
	return res, nil
}
