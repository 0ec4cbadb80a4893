package generate

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// shape is the shape of a step: a number of sequences, and of tokens in each.
type shape struct {
	sequences, tokens int
	scored            bool // returns the logits of all tokens
}

// job returns the job running steps of a shape. Its results are the logits f32[sequences,1,V] of the last tokens,
// or f32[sequences,tokens,V] of all tokens if scored, followed by the states in the order of g.states. When ctx ends,
// compilation stops.
func (g *Generator) job(ctx context.Context, at shape) (*gomoe.Job, error) {
	if j := g.jobs[at]; j != nil {
		return j, nil
	}
	p, cfg, err := g.program(at)
	if err != nil {
		return nil, err
	}
	j, err := gomoe.Open(ctx, p, cfg)
	if err != nil {
		return nil, g.onMesh(err)
	}
	g.jobs[at] = j
	return j, nil
}

// program traces the program for steps of a shape, and returns its configuration. It records the parameters, and
// the shape's states.
func (g *Generator) program(at shape) (*graph.Program, gomoe.Config, error) {
	donate := map[string]int{}
	var states []nn.State
	var params []nn.Param
	p, err := graph.Trace("step", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: models.DType(g.c), Stored: g.stored, Exchange: g.o.Exchange, Wire: g.o.Wire, Copies: g.o.Copies, LoRA: g.o.Adapters.Options()})
		st := &nn.Step{Start: t.Input("start", graph.I32, at.sequences), Room: g.o.Room, Cache: g.o.Cache, Last: !at.scored}
		if g.grows() {
			st.Length = t.Input("length", graph.I32, at.sequences)
		}
		logits := g.model.Forward(s, t.Input("tokens", graph.I32, at.sequences, at.tokens), st)
		params, states = s.Params(), st.States()
		out := []*graph.Value{primitives.ShardingConstraint(logits).Named("logits")}
		for _, c := range states {
			donate[c.In.Name] = len(out)
			out = append(out, c.Out)
		}
		return out
	})
	if err != nil {
		return nil, gomoe.Config{}, err
	}
	cfg := g.o.Config
	cfg.Place, cfg.Donate = nn.Places(params, cfg.Mesh), donate
	if cfg.Mesh.Size("tp") > 0 {
		for _, x := range states {
			cfg.Place[x.In.Name] = nn.Param{Place: x.Place}.Spec(cfg.Mesh)
		}
	}
	g.states[at], g.params = states, params
	return p, cfg, nil
}

// grows reports whether the positions of long texts depend on their lengths.
func (g *Generator) grows() bool { return g.model.Grows > 0 && g.o.Room > g.model.Grows }

// onMesh adds to an error why a program does not fit the mesh.
func (g *Generator) onMesh(err error) error {
	if g.o.Mesh.Ranks() == 1 {
		return err
	}
	why := ""
	if g.o.Mesh.Size("tp") > 1 {
		why = ", whose axis tp must split heads evenly, and columns of experts between blocks where weights are in blocks"
	}
	return fmt.Errorf("generate: on the mesh %q%s: %w", g.o.Mesh, why, err)
}

// stored returns the form of a parameter. Once forms are known, it does not need the files.
func (g *Generator) stored(p nn.Param) (nn.Form, error) {
	if f, ok := g.forms[p.Name]; ok {
		return f, nil
	}
	return models.Stored(g.c)(p)
}
