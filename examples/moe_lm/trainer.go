package main

import (
	"context"
	"errors"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// trainer runs training steps on a mesh. Weights and moments stay on their ranks from step
// to step.
type trainer struct {
	*train.Run
	c    config
	eval *train.Evaluation
}

// newTrainer returns a trainer that has no weights yet.
func newTrainer(c config, m sharding.Mesh, opts runtime.Options, grads bool) (*trainer, error) {
	p, err := c.step(m, grads)
	if err != nil {
		return nil, err
	}
	cfg, held := c.placed(m), c.placed(m)
	cfg.Options, held.Device = opts, opts.Device
	tr := &trainer{c: c}
	if tr.Run, err = train.Open(p, cfg); err != nil {
		return nil, train.Lightest(err, p, c.placed(m), c.lighter(m))
	}
	if tr.eval, err = tr.Evaluation("evaluate", held, c.evaluation); err != nil {
		return nil, errors.Join(err, tr.Run.Close())
	}
	return tr, nil
}

// Close releases the ranks.
func (tr *trainer) Close() error { return errors.Join(tr.eval.Close(), tr.Run.Close()) }

// heldOut returns the loss on bytes and targets i32[B,S] without training on them.
func (tr *trainer) heldOut(ctx context.Context, bytes, targets []int32) (float64, error) {
	in, err := tr.c.batch(bytes, targets)
	if err != nil {
		return 0, err
	}
	return tr.eval.Scalar(ctx, "loss", in)
}

// batch returns the inputs of a step: bytes and targets i32[B,S].
func (c config) batch(bytes, targets []int32) (map[string]array.Array, error) {
	x, err := array.Of(bytes, c.Batch, c.Seq)
	if err != nil {
		return nil, err
	}
	y, err := array.Of(targets, c.Batch, c.Seq)
	return map[string]array.Array{"bytes": x, "targets": y}, err
}
