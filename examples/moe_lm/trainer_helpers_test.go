package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// started returns a trainer with the first weights of a seed.
func started(t testing.TB, c config, m sharding.Mesh, seed uint64, opts runtime.Options, grads bool) *trainer {
	t.Helper()
	tr, err := newTrainer(c, m, opts, grads)
	require.NoError(t, err)
	require.NoError(t, tr.Init(seed))
	return tr
}

// train does a step and returns what it reports.
func (tr *trainer) train(ctx context.Context, number int, rate float64, bytes, targets []int32) (*train.Done, error) {
	in, err := tr.c.batch(bytes, targets)
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
func planned(t testing.TB, c config, m sharding.Mesh) (*train.Program, gomoe.Config) {
	t.Helper()
	p, err := c.step(m, false)
	require.NoError(t, err)
	cfg, err := p.Placed(c.placed(m))
	require.NoError(t, err)
	return p, cfg
}
