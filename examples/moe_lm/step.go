package main

import (
	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// AdamW's constants.
const (
	beta1 = 0.9
	beta2 = 0.95
	eps   = 1e-8
)

// step traces one training step: loss, gradient, clipping by global norm, and AdamW. With
// grads, it returns the gradients, too.
func (c config) step(m sharding.Mesh, grads bool) (*train.Program, error) {
	cfg := train.Config{
		Optimizer: train.Chain(train.ClipByGlobalNorm(c.Clip), train.AdamW(train.AdamWOptions{B1: beta1, B2: beta2, Eps: eps, Decay: c.Decay})),
		Batch:     batchSpec(m).Dims[0],
		Gradients: grads, Microbatches: c.Micro,
	}
	if c.Zero != zeroOff {
		cfg.Zero = train.Zero(c.Zero)
	}
	return train.Trace("train_step", cfg, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		bytes, targets := c.texts(s.Tracer())
		ce, total, balance, st := c.loss(c.inputs(s), bytes, targets)
		return total, []*graph.Value{ce.Named("loss"), balance.Named("balance"), stack(st.demand).Named("demand"), stack(st.counts).Named("counts")}
	})
}

// evaluation traces the loss alone, for held-out text.
func (c config) evaluation(s *nn.Scope) []*graph.Value {
	bytes, targets := c.texts(s.Tracer())
	ce, _, _, _ := c.loss(c.inputs(s), bytes, targets)
	return []*graph.Value{ce.Named("loss")}
}

// texts declares the bytes and targets i32[B,S] of a batch, or of a part of it.
func (c config) texts(t *graph.Tracer) (bytes, targets *graph.Value) {
	b := c.Batch / c.Micro
	return t.Input("bytes", graph.I32, b, c.Seq), t.Input("targets", graph.I32, b, c.Seq)
}

// stack returns i32[n] values as one i32[len, n].
func stack(vs []*graph.Value) *graph.Value {
	rows := make([]*graph.Value, len(vs))
	for i, v := range vs {
		rows[i] = Reshape(v, 1, v.Dim(0))
	}
	return Concatenate(0, rows...)
}

// placed returns how a program of the model is placed on the mesh, but for its weights.
func (c config) placed(m sharding.Mesh) gomoe.Config {
	cfg := gomoe.Config{World: c.world, Mesh: m, Place: map[string]sharding.Spec{"bytes": batchSpec(m), "targets": batchSpec(m)}, Overlap: c.Overlap, Sums: c.Sums.DType}
	if c.Exact {
		cfg.Exact = gomoe.ExactBlocks
	}
	return cfg
}
