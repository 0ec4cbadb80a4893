package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/text"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// How far a gradient on the mesh may lie from that on one rank, relative to its
// largest element: sums over ranks are formed in another order. With tp, that
// is true of the forward pass as well, and its differences grow on the way back.
const (
	tolerance   = 1e-6
	toleranceTP = 1e-5
)

// errCheck says that one rank and the mesh disagree.
var errCheck = errors.New("one rank and the mesh disagree")

// check runs one step on one rank and on the mesh, from the same weights and on
// the same text, and compares the loss, every gradient and the updated weights.
// Without tp the loss must be equal to the bit.
func check(ctx context.Context, w io.Writer, c config, m sharding.Mesh, seed uint64, peak float64, corpus *text.Corpus) error {
	bytes, targets, err := corpus.Batch(0, c.Batch, c.Seq)
	if err != nil {
		return err
	}
	tolerance, loss := tolerance, 0.0
	if m.Size("tp") > 1 {
		tolerance, loss = toleranceTP, toleranceTP
	}
	var got [2]*outcome
	var state [2]map[string]*runtime.Array
	for i, mesh := range []sharding.Mesh{{}, m} {
		tr, err := newTrainer(c, mesh, seed, runtime.Options{}, true)
		if err != nil {
			return err
		}
		defer tr.Close()
		if got[i], err = tr.train(ctx, 1, peak, bytes, targets); err != nil {
			return err
		}
		state[i] = tr.state
	}
	worst := 0.0
	note := func(name string, d, allowed float64) {
		verdict := "ok"
		if !(d <= allowed) {
			verdict = "WRONG"
			worst = math.Inf(1)
		}
		fmt.Fprintf(w, "%-20s %.2e %s\n", name, d, verdict)
	}
	fmt.Fprintf(w, "one rank against mesh %s: largest difference, relative to the largest element\n", m)
	note("loss", relative(got[1].loss, got[0].loss), loss)
	note("gradient norm", relative(got[1].norm, got[0].norm), tolerance)
	for _, p := range c.params() {
		d, err := difference(got[1].grads[p.name], got[0].grads[p.name])
		if err != nil {
			return err
		}
		note("grad "+p.name, d, tolerance)
	}
	for _, p := range c.params() {
		d, err := difference(state[1]["w_"+p.name], state[0]["w_"+p.name])
		if err != nil {
			return err
		}
		note("updated "+p.name, d, updateTolerance(tolerance, peak))
	}
	if worst > 0 {
		return errCheck
	}
	fmt.Fprintf(w, "--check PASSED (loss %.6f)\n", got[0].loss)
	return nil
}

// updateTolerance allows for AdamW's first step: it divides the gradient by its
// own size, so an element whose gradient is little more than rounding moves by
// up to the learning rate either way.
func updateTolerance(tolerance, peak float64) float64 { return tolerance + 2*peak }

func relative(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / max(math.Abs(want), 1e-30)
}

func difference(got, want *runtime.Array) (float64, error) {
	a, err := got.Get()
	if err != nil {
		return 0, err
	}
	b, err := want.Get()
	if err != nil {
		return 0, err
	}
	d, _ := array.MaxDiff(a, b)
	scale := 1e-30
	for _, x := range b.Float64s() {
		scale = max(scale, math.Abs(x))
	}
	return d / scale, nil
}
