package main

import (
	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	. "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// The results of a step before the weights and moments.
const (
	outLoss = iota
	outBalance
	outNorm
	outDemand // i32[layers, experts], before drops
	outCounts // after
	outFirst  // the first weight; moments follow each: w, m, v
)

// AdamW's constants.
const (
	beta1 = 0.9
	beta2 = 0.95
	eps   = 1e-8
)

// step traces one training step: loss, gradient, clipping by global norm, and
// AdamW. With grads, the gradients follow the weights and moments.
func (c config) step(grads bool) (*graph.Program, error) {
	return graph.Trace("train_step", func(t *graph.Tracer) []*graph.Value {
		bytes := t.Input("bytes", graph.I32, c.Batch, c.Seq)
		targets := t.Input("targets", graph.I32, c.Batch, c.Seq)
		rate := t.Input("rate", graph.F32)
		number := t.Input("step", graph.I32)
		ps := c.params()
		w, list := c.inputs(t, "w_")
		_, ms := c.inputs(t, "m_")
		_, vs := c.inputs(t, "v_")

		ce, total, balance, st := c.loss(w, bytes, targets)
		gs := vjp.Gradients(total, list...)
		for i := range gs {
			gs[i] = PlaceLike(gs[i], ms[i])
		}
		norm := globalNorm(gs)
		limit := Min(FullLike(norm, 1), Div(FullLike(norm, c.Clip), norm))

		out := []*graph.Value{ce.Named("loss"), balance.Named("balance"), norm.Named("norm"), stack(st.demand).Named("demand"), stack(st.counts).Named("counts")}
		for i, p := range ps {
			decay := 0.0
			if len(p.shape) > 1 {
				decay = c.Decay
			}
			nw, nm, nv := AdamW(list[i], ms[i], vs[i], gs[i], rate, number, limit, AdamWOp{B1: beta1, B2: beta2, Eps: eps, WeightDecay: decay})
			out = append(out, nw.Named("new_w_"+p.name), nm.Named("new_m_"+p.name), nv.Named("new_v_"+p.name))
		}
		if grads {
			for i, p := range ps {
				out = append(out, gs[i].Named("grad_"+p.name))
			}
		}
		return out
	})
}

// inputs declares one input per weight.
func (c config) inputs(t *graph.Tracer, prefix string) (byName map[string]*graph.Value, list []*graph.Value) {
	byName = map[string]*graph.Value{}
	for _, p := range c.params() {
		v := t.Input(prefix+p.name, graph.F32, p.shape...)
		byName[p.name] = v
		list = append(list, v)
	}
	return byName, list
}

// globalNorm returns the square root of the sum of squares of all gradients.
// Gradients of experts lie on different ranks. Their sums are added to each
// other first, so that ranks exchange one number for all.
func globalNorm(gs []*graph.Value) *graph.Value {
	sums := map[int]*graph.Value{} // by number of dimensions: experts have 3
	for _, g := range gs {
		s := ReduceSumUnordered(Square(g))
		if old := sums[g.Rank()]; old != nil {
			s = Add(old, s)
		}
		sums[g.Rank()] = s
	}
	return Sqrt(Add(Add(sums[1], sums[2]), sums[3]))
}

// stack returns i32[n] values as one i32[len, n].
func stack(vs []*graph.Value) *graph.Value {
	rows := make([]*graph.Value, len(vs))
	for i, v := range vs {
		rows[i] = Reshape(v, 1, v.Dim(0))
	}
	return Concatenate(0, rows...)
}

// evaluation traces the loss alone, for held-out text.
func (c config) evaluation() (*graph.Program, error) {
	return graph.Trace("evaluate", func(t *graph.Tracer) []*graph.Value {
		bytes := t.Input("bytes", graph.I32, c.Batch, c.Seq)
		targets := t.Input("targets", graph.I32, c.Batch, c.Seq)
		w, _ := c.inputs(t, "w_")
		ce, _, _, _ := c.loss(w, bytes, targets)
		return []*graph.Value{ce.Named("loss")}
	})
}

// placed returns how a program of the model is placed on the mesh. For a step
// it also says that new weights and moments take the place of the old ones.
func (c config) placed(m sharding.Mesh, p *graph.Program, train bool) gomoe.Config {
	cfg := gomoe.Config{World: c.world, Mesh: m, Place: map[string]sharding.Spec{"bytes": batchSpec(m), "targets": batchSpec(m)}, Donate: map[string]int{}, Overlap: c.Overlap, Sums: c.Sums.DType}
	for i, q := range c.params() {
		for j, prefix := range []string{"w_", "m_", "v_"} {
			name := prefix + q.name
			if p.Input(name) == nil {
				continue
			}
			cfg.Place[name] = c.spec(q, prefix, m)
			if train {
				cfg.Donate[name] = outFirst + 3*i + j
			}
		}
	}
	return cfg
}
