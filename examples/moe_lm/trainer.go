package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
)

// trainer runs training steps on a mesh. Weights and moments stay on their
// ranks from step to step.
type trainer struct {
	c     config
	names []string // of the step's weights and moments, in the order of its results
	step  *gomoe.Job
	eval  *gomoe.Job
	state map[string]*runtime.Array
}

// newTrainer returns a trainer whose weights and moments are those of a checkpoint, or, with nil,
// new ones of the seed.
func newTrainer(c config, m sharding.Mesh, seed uint64, opts runtime.Options, grads bool, from *snapshot.Snapshot) (tr *trainer, err error) {
	tr = &trainer{c: c, state: map[string]*runtime.Array{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, tr.Close())
		}
	}()
	p, err := c.step(grads)
	if err != nil {
		return tr, err
	}
	cfg := c.placed(m, p, true)
	cfg.Options = opts
	if tr.step, err = gomoe.Open(p, cfg); err != nil {
		return tr, err
	}
	q, err := c.evaluation()
	if err != nil {
		return tr, err
	}
	held := c.placed(m, q, false)
	held.Device = opts.Device
	if tr.eval, err = gomoe.Open(q, held); err != nil {
		return tr, err
	}
	if from != nil {
		return tr, tr.restore(from)
	}
	return tr, tr.start(m, seed)
}

// restore reads the weights and moments of a checkpoint. Every rank reads its own parts.
func (tr *trainer) restore(from *snapshot.Snapshot) (err error) {
	for _, p := range tr.c.params() {
		for _, prefix := range []string{"w_", "m_", "v_"} {
			name := prefix + p.name
			tr.names = append(tr.names, name)
			if tr.state[name], err = tr.step.PutParts(name, from.Fill(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// start makes the first weights and moments on their ranks.
func (tr *trainer) start(m sharding.Mesh, seed uint64) error {
	p, err := tr.c.initial(seed, m)
	if err != nil {
		return err
	}
	job, err := gomoe.Open(p, gomoe.Config{World: tr.c.world, Mesh: m})
	if err != nil {
		return err
	}
	defer job.Close()
	out, err := job.Run(context.Background(), nil)
	if err != nil {
		return err
	}
	for i, v := range p.Out {
		tr.names = append(tr.names, v.Name)
		tr.state[v.Name] = out[i]
	}
	return nil
}

// Close releases the ranks. It may be called twice, and also on a trainer that
// is incomplete.
func (tr *trainer) Close() error {
	var errs []error
	for _, j := range []*gomoe.Job{tr.step, tr.eval} {
		if j != nil {
			errs = append(errs, j.Close())
		}
	}
	return errors.Join(errs...)
}

// outcome is what a step returns besides new weights.
type outcome struct {
	loss, balance, norm float64
	demand, counts      [][]int64                 // pairs per layer and expert
	grads               map[string]*runtime.Array // if the step returns them
}

// train runs one step on the bytes and targets i32[B,S] with the learning rate.
func (tr *trainer) train(ctx context.Context, number int, rate float64, bytes, targets []int32) (*outcome, error) {
	in, err := tr.batch(tr.step, bytes, targets)
	if err != nil {
		return nil, err
	}
	for name, a := range map[string]array.Array{"rate": array.Scalar(float32(rate)), "step": array.Scalar(int32(number))} {
		if in[name], err = tr.step.Put(name, a); err != nil {
			return nil, err
		}
	}
	for name, a := range tr.state {
		in[name] = a
	}
	out, err := tr.step.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	for i, name := range tr.names {
		tr.state[name] = out[outFirst+i]
	}
	o := &outcome{grads: map[string]*runtime.Array{}}
	for i, p := range tr.c.params() {
		if at := outFirst + len(tr.names) + i; at < len(out) {
			o.grads[p.name] = out[at]
		}
	}
	for i, dst := range []*float64{outLoss: &o.loss, outBalance: &o.balance, outNorm: &o.norm} {
		if *dst, err = scalar(ctx, tr.step, out[i]); err != nil {
			return nil, err
		}
	}
	if o.demand, err = table(ctx, tr.step, out[outDemand]); err != nil {
		return nil, err
	}
	o.counts, err = table(ctx, tr.step, out[outCounts])
	return o, err
}

// heldOut returns the loss on bytes and targets i32[B,S] without training on
// them.
func (tr *trainer) heldOut(ctx context.Context, bytes, targets []int32) (float64, error) {
	in, err := tr.batch(tr.eval, bytes, targets)
	if err != nil {
		return 0, err
	}
	for _, p := range tr.c.params() {
		in["w_"+p.name] = tr.state["w_"+p.name]
	}
	out, err := tr.eval.Run(ctx, in)
	if err != nil {
		return 0, err
	}
	return scalar(ctx, tr.eval, out[0])
}

func (tr *trainer) batch(j *gomoe.Job, bytes, targets []int32) (map[string]*runtime.Array, error) {
	in := map[string]*runtime.Array{}
	for name, data := range map[string][]int32{"bytes": bytes, "targets": targets} {
		a, err := array.Of(data, tr.c.Batch, tr.c.Seq)
		if err != nil {
			return nil, err
		}
		if in[name], err = j.Put(name, a); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// weights copies the weights to the host of every process.
func (tr *trainer) weights(ctx context.Context) (map[string]array.Array, error) {
	out := map[string]array.Array{}
	for _, p := range tr.c.params() {
		a, err := tr.step.Get(ctx, tr.state["w_"+p.name])
		if err != nil {
			return nil, err
		}
		out["w_"+p.name] = a
	}
	return out, nil
}

func scalar(ctx context.Context, j *gomoe.Job, d *runtime.Array) (float64, error) {
	a, err := j.Get(ctx, d)
	if err != nil {
		return 0, err
	}
	return a.Float64s()[0], nil
}

func table(ctx context.Context, j *gomoe.Job, d *runtime.Array) ([][]int64, error) {
	a, err := j.Get(ctx, d)
	if err != nil {
		return nil, err
	}
	rows := make([][]int64, a.Type.Shape[0])
	for i := range rows {
		rows[i] = array.Data[int64](a.Rows(i, i+1).As(graph.I64))
	}
	return rows, nil
}

// report converts an outcome into a row of the metrics.
func (o *outcome) report(number, total, tokens int, rate float64, took time.Duration) report.Step {
	s := report.Step{Index: number, Total: total, Loss: o.loss, Aux: o.balance, LR: rate, Norm: o.norm, Tokens: tokens, Elapsed: took}
	s.Load = make([]float64, len(o.demand[0]))
	for l, row := range o.demand {
		sum := int64(0)
		for _, n := range row {
			sum += n
		}
		for e, n := range row {
			s.Load[e] += float64(n) / float64(max(sum, 1)) / float64(len(o.demand))
			s.Drops += int(n - o.counts[l][e])
		}
	}
	return s
}

// rate returns the learning rate of a step: a linear warm-up to peak, then a
// cosine down to a tenth of peak.
func rate(number, total, warmup int, peak float64) float64 {
	if number <= warmup {
		return peak * float64(number) / float64(warmup)
	}
	done := float64(number-warmup) / float64(max(total-warmup, 1))
	return peak * (0.1 + 0.9*0.5*(1+math.Cos(math.Pi*done)))
}

// finite reports whether the loss and the gradient are finite.
func (o *outcome) finite() bool {
	return math.Abs(o.loss) <= math.MaxFloat64 && math.Abs(o.norm) <= math.MaxFloat64
}
