package generate

import (
	"context"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
)

// Plan returns the memory use that each rank of the mesh would have after Open with the same arguments. It reads no
// weights and allocates no memory for them. Memory aliasing files is not distinguished from copies. It stops when
// ctx ends.
func Plan(ctx context.Context, m *models.Model, c *checkpoint.Checkpoint, o Options) ([]Memory, error) {
	o, err := o.usual(m)
	if err != nil {
		return nil, err
	}
	g := &Generator{model: m, c: c, o: o, states: map[shape][]nn.State{}, forms: map[string]nn.Form{}}
	ranks := make([]Memory, o.Mesh.Ranks())
	for i, at := range g.shapes() {
		p, cfg, err := g.program(at)
		if err != nil {
			return nil, err
		}
		plan, err := gomoe.Compile(ctx, p, cfg)
		if err != nil {
			return nil, g.onMesh(err)
		}
		mem := plan.Report(1).Mem
		for r := range ranks {
			if ranks[r].Step = max(ranks[r].Step, mem.Total-mem.Inputs); i == 0 {
				g.count(&ranks[r], plan, r)
			}
		}
	}
	return ranks, nil
}

// shapes returns the shape of a step of one token, the largest shapes, and the shapes of steps with guesses.
func (g *Generator) shapes() []shape {
	all := []shape{{1, 1, false}, {1, g.block(g.o.Room), false}, {g.o.Sequences, 1, false}}
	for _, n := range guesses() {
		if g.o.Speculate != NoSpeculation && n < g.o.Room {
			all = append(all, shape{1, n + 1, true})
		}
	}
	return all
}

// count adds up the weights and states of a rank.
func (g *Generator) count(m *Memory, plan *lowering.Plan, rank int) {
	size := func(in lowering.Port) int64 {
		_, part := in.Spec.Box(plan.Mesh, rank, in.Type)
		return part.Bytes()
	}
	all, carried := g.stateBytes(plan, size)
	m.addStates(g, all, carried)
	m.Weights = -all
	for _, in := range plan.In {
		m.Weights += size(in)
	}
}
