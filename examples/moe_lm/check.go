package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// tolerances are how far a loss, the norm of the gradient and the elements of the
// gradient on the mesh may differ from those on one rank. The last is relative to the
// largest element of its weight.
type tolerances struct{ loss, norm, gradient float64 }

// allowed returns the tolerances. Sums over ranks are added in another order than sums on
// one rank. With tp that is true of the forward pass as well, and its differences grow in
// the backward pass. In f32, over many sizes, seeds and meshes the largest differences
// were 7e-7, and 1e-6 with tp.
//
// In bf16 every rank rounds what it adds to a weight's gradient, by at most 2^-9 of it:
// the largest differences were 6e-3, and 4e-4 for the norm. With tp, ranks round what
// they add to activations, and tokens for which two experts are nearly as good change
// experts. Elements of gradients then cannot be compared, but loss and norm differ by no
// more than 2e-3 and 3e-2.
//
// With -exact nothing differs.
func (c config) allowed(tp bool) tolerances {
	switch {
	case c.Exact:
		return tolerances{}
	case c.DType.DType == graph.BF16 && tp:
		return tolerances{loss: 1e-2, norm: 1e-1, gradient: math.Inf(1)}
	case c.DType.DType == graph.BF16:
		return tolerances{norm: 2e-3, gradient: 2e-2}
	case tp:
		return tolerances{loss: 1e-5, norm: 1e-5, gradient: 1e-5}
	}
	return tolerances{norm: 1e-6, gradient: 1e-6}
}

// residue is how far an updated weight on the mesh may differ from that on one rank,
// beyond what AdamW makes of the difference between their gradients, relative to the
// largest element. AdamW computes in f64 and rounds once, so each of the two is wrong by
// at most half a unit in the last place, 2^-24 of the largest element. Twice the sum of
// both leaves room for the comparison.
const residue = 0x1p-22

// errCheck says that one rank and the mesh disagree.
var errCheck = errors.New("one rank and the mesh disagree")

// check runs one step on one rank and on the mesh, from the same weights and on
// the same text, and compares the loss, every gradient and the updated weights.
// Without tp the loss must be equal to the bit, in f32 and in bf16. It prints the largest
// differences, and returns errCheck if one is too large.
func check(ctx context.Context, w io.Writer, c config, o options, corpus *text.Corpus) error {
	alone := c
	alone.world = nil
	one, err := firstStep(ctx, alone, sharding.Mesh{}, o, corpus)
	if err != nil {
		return err
	}
	many, err := firstStep(ctx, c, o.mesh, o, corpus)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "one rank against mesh %s: one step from the same weights\n\n", describe(o.mesh))
	return compare(w, c, o, one, many)
}

// A first is the result of the first step: what it reports, and the gradients and updated
// weights by the names of the weights, on the host.
type first struct {
	*train.Done
	gradients, weights map[string][]float64
}

// firstStep runs the first step on a mesh with the full learning rate.
func firstStep(ctx context.Context, c config, m sharding.Mesh, o options, corpus *text.Corpus) (f *first, err error) {
	bytes, targets, err := corpus.Batch(1, c.Batch, c.Seq)
	if err != nil {
		return nil, fmt.Errorf("-seq %d: %w", c.Seq, err)
	}
	in, err := c.batch(bytes, targets)
	if err != nil {
		return nil, err
	}
	tr, err := newTrainer(c, m, o.session(), true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	if err := tr.Init(o.seed); err != nil {
		return nil, err
	}
	f = &first{gradients: map[string][]float64{}, weights: map[string][]float64{}}
	out, err := tr.Step(ctx, 1, o.lr, in)
	if err != nil {
		return nil, fmt.Errorf("step 1: %w", err)
	}
	if f.Done, err = tr.Read(ctx, out); err != nil {
		return nil, err
	}
	weights, err := tr.Weights(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range c.params() {
		var g array.Array
		if g, err = tr.Job.Get(ctx, out["grad/"+p.name]); err != nil {
			return nil, err
		}
		f.gradients[p.name], f.weights[p.name] = g.Float64s(), weights[p.name].Float64s()
	}
	return f, nil
}

// compare prints the differences between the first step on one rank and on many, and
// returns errCheck, with what differs, if one is too large.
func compare(w io.Writer, c config, o options, one, many *first) error {
	allowed := c.allowed(o.mesh.Size("tp") > 1)
	var wrong []string
	verdict := func(what string, ok bool) string {
		if ok {
			return "ok"
		}
		wrong = append(wrong, what)
		return "WRONG"
	}
	width := len("gradient norm")
	for _, p := range c.params() {
		width = max(width, len(p.name))
	}

	fmt.Fprintf(w, "%-*s  %12s  %12s  %10s  %8s\n", width, "", "one rank", "mesh", "difference", "allowed")
	for _, row := range []struct {
		name      string
		one, many float64
		allowed   float64
	}{
		{"loss", one.Loss, many.Loss, allowed.loss},
		{"gradient norm", one.Norm, many.Norm, allowed.norm},
	} {
		d := math.Abs(row.one-row.many) / max(math.Abs(row.one), math.SmallestNonzeroFloat64)
		fmt.Fprintf(w, "%-*s  %12.7f  %12.7f  %10.2e  %8.1e  %s\n", width, row.name, row.one, row.many, d, row.allowed, verdict(row.name, d <= row.allowed))
	}

	fmt.Fprint(w, "\nlargest differences, relative to the largest element; the residue is that of the\n"+
		"updated weights less what AdamW makes of the difference between the gradients\n\n")
	fmt.Fprintf(w, "%-*s  %8s  %8s  %8s\n", width, "", "gradient", "updated", "residue")
	fmt.Fprintf(w, "%-*s  %8.1e  %8s  %8.1e\n", width, "allowed", allowed.gradient, "", residue)
	for _, p := range c.params() {
		dg, dw, rest := differences(c, o, p.name, one, many)
		what := verdict(p.name, dg <= allowed.gradient && rest <= residue && !(c.Exact && dw > 0))
		fmt.Fprintf(w, "%-*s  %8.2e  %8.2e  %8.2e  %s\n", width, p.name, dg, dw, rest, what)
	}
	if len(wrong) > 0 {
		fmt.Fprintln(w, "\n--check FAILED")
		return fmt.Errorf("%w: %s", errCheck, strings.Join(wrong, ", "))
	}
	fmt.Fprintf(w, "\n--check PASSED (loss %.6f)\n", one.Loss)
	return nil
}

// differences returns the largest difference of a weight's gradient, the largest
// difference of its updated elements, and the part of the latter beyond what AdamW makes
// of the former, each relative to the largest element. They are infinite if a number is
// not finite.
//
// AdamW's first step divides the gradient by its own size: it subtracts lr·move(g) with
// move(g) = g/(|g|+eps), and lr·decay·p, which is the same on both. An element whose
// gradient is little more than rounding may thus move by lr in either direction, and a
// bound for the updated weights alone would have to allow for that.
func differences(c config, o options, name string, one, many *first) (gradient, updated, rest float64) {
	lr := float64(float32(o.lr))
	move := func(f *first, g float64) float64 {
		g *= float64(min(1, float32(c.Clip)/float32(f.Norm)))
		return g / (math.Abs(g) + eps)
	}
	var largestG, largestW float64
	for i := range one.gradients[name] {
		g, h := one.gradients[name][i], many.gradients[name][i]
		w, x := one.weights[name][i], many.weights[name][i]
		dg, dw := h-g, x-w
		gradient = worse(gradient, dg)
		updated = worse(updated, dw)
		rest = worse(rest, dw+lr*(move(many, h)-move(one, g)))
		largestG, largestW = max(largestG, math.Abs(g)), max(largestW, math.Abs(w))
	}
	return relative(gradient, largestG), relative(updated, largestW), relative(rest, largestW)
}

// worse returns the larger of size and |d|; infinity if d is a NaN.
func worse(size, d float64) float64 {
	if d != d {
		return math.Inf(1)
	}
	return max(size, math.Abs(d))
}

func relative(d, to float64) float64 {
	if d == 0 {
		return 0
	}
	return d / to
}
