package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/lm"
)

// parse reads a command line.
func parse(args []string) (*model, *lm.Options, error) {
	m := &model{}
	o, err := lm.Command{Name: "moe_lm", Model: m}.Parse(args)
	return m, o, err
}

// setup parses a command line and loads its text.
func setup(t *testing.T, args ...string) (*model, *lm.Options, *text.Corpus) {
	t.Helper()
	m, o, err := parse(args)
	require.NoError(t, err)
	corpus, err := text.Load(context.Background(), text.Options{Data: o.Data, Seed: o.Seed})
	require.NoError(t, err)
	return m, o, corpus
}

// trainer is a step on a mesh, with the loss on held-out text.
type trainer struct {
	*train.Run
	p    *train.Program
	eval *train.Evaluation
	o    *lm.Options
}

// started returns a trainer with the first weights of a seed.
func started(t testing.TB, m *model, o *lm.Options, mesh sharding.Mesh, seed uint64, opts runtime.Options, grads bool) *trainer {
	t.Helper()
	step := o.Step(m)
	step.Train.Gradients = grads
	p, err := step.Trace(mesh)
	require.NoError(t, err)
	cfg := o.Config(mesh)
	cfg.Options = opts
	run, err := train.Open(t.Context(), p, cfg)
	require.NoError(t, err)
	eval, err := run.Evaluation(t.Context(), "evaluate", o.Config(mesh), step.Evaluation)
	require.NoError(t, err)
	require.NoError(t, run.Init(t.Context(), seed))
	return &trainer{run, p, eval, o}
}

func (tr *trainer) Close() error { return errors.Join(tr.eval.Close(), tr.Run.Close()) }

// batch returns the inputs of a step: bytes and targets i32[B,S].
func (tr *trainer) batch(bytes, targets []int32) (map[string]array.Array, error) {
	ones := array.New(graph.T(graph.F32, tr.o.Rows, tr.o.Length))
	for i := range array.Data[float32](ones) {
		array.Data[float32](ones)[i] = 1
	}
	x, err := array.Of(bytes, tr.o.Rows, tr.o.Length)
	if err != nil {
		return nil, err
	}
	y, err := array.Of(targets, tr.o.Rows, tr.o.Length)
	return map[string]array.Array{data.Tokens: x, data.Targets: y, data.Weights: ones}, err
}

// train does a step and returns what it reports.
func (tr *trainer) train(ctx context.Context, number int, rate float64, bytes, targets []int32) (*train.Done, error) {
	in, err := tr.batch(bytes, targets)
	if err != nil {
		return nil, err
	}
	out, err := tr.Step(ctx, number, rate, in)
	if err != nil {
		return nil, err
	}
	return tr.Read(ctx, out)
}

// planned returns the step without gradients, and how it is placed on a mesh.
func planned(t testing.TB, m *model, o *lm.Options, mesh sharding.Mesh) (*train.Program, gomoe.Config) {
	t.Helper()
	p, err := o.Step(m).Trace(mesh)
	require.NoError(t, err)
	cfg, err := p.Placed(o.Config(mesh))
	require.NoError(t, err)
	return p, cfg
}
