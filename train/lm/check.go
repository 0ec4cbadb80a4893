package lm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gomoe/gomoe/nn"
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
func (o *Options) allowed() tolerances {
	tp, bf16 := o.Mesh.Size("tp") > 1, o.DType.Is == "bf16"
	switch {
	case o.Exact:
		return tolerances{}
	case bf16 && tp:
		return tolerances{loss: 1e-2, norm: 1e-1, gradient: math.Inf(1)}
	case bf16:
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
func (c Command) check(ctx context.Context, w io.Writer, o *Options, corpus *Bytes) error {
	alone := *o
	alone.world = nil
	one, err := c.firstStep(ctx, &alone, sharding.Mesh{}, corpus)
	if err != nil {
		return err
	}
	many, err := c.firstStep(ctx, o, o.Mesh, corpus)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "one rank against mesh %s: one step from the same weights\n\n", Describe(o.Mesh))
	return compare(w, o, one, many)
}

// A first is the result of the first step: what it reports, and the gradients and updated weights by the names of the
// weights, on the host.
type first struct {
	*train.Done
	params             []nn.Param
	gradients, weights map[string][]float64
}

// firstStep runs the first step on a mesh with the full learning rate.
func (c Command) firstStep(ctx context.Context, o *Options, m sharding.Mesh, corpus *Bytes) (f *first, err error) {
	step := c.step(o)
	step.Train.Gradients = true
	p, err := step.Trace(m)
	if err != nil {
		return nil, err
	}
	in, err := corpus.Step(1)
	if err != nil {
		return nil, err
	}
	cfg := o.Config(m)
	run, err := train.Open(ctx, p, cfg)
	if err != nil {
		return nil, train.Lightest(ctx, err, p, cfg, c.lighter(step, o))
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := run.Init(ctx, o.Seed); err != nil {
		return nil, err
	}
	f = &first{params: p.Params, gradients: map[string][]float64{}, weights: map[string][]float64{}}
	out, err := run.Step(ctx, 1, o.Rate, in)
	if err != nil {
		return nil, fmt.Errorf("step 1: %w", err)
	}
	if f.Done, err = run.Read(ctx, out); err != nil {
		return nil, err
	}
	weights, err := run.Weights(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range p.Params {
		g, err := run.Job.Get(ctx, out["grad/"+p.Name])
		if err != nil {
			return nil, err
		}
		f.gradients[p.Name], f.weights[p.Name] = g.Float64s(), weights[p.Name].Float64s()
	}
	return f, nil
}

// compare prints the differences between the first step on one rank and on many, and
// returns errCheck, with what differs, if one is too large.
func compare(w io.Writer, o *Options, one, many *first) error {
	allowed := o.allowed()
	var wrong []string
	verdict := func(what string, ok bool) string {
		if ok {
			return "ok"
		}
		wrong = append(wrong, what)
		return "WRONG"
	}
	width := len("gradient norm")
	for _, p := range one.params {
		width = max(width, len(p.Name))
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
	for _, p := range one.params {
		dg, dw, rest := differences(o, p.Name, one, many)
		what := verdict(p.Name, dg <= allowed.gradient && rest <= residue && !(o.Exact && dw > 0))
		fmt.Fprintf(w, "%-*s  %8.2e  %8.2e  %8.2e  %s\n", width, p.Name, dg, dw, rest, what)
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
func differences(o *Options, name string, one, many *first) (gradient, updated, rest float64) {
	lr := float64(float32(o.Rate))
	move := func(f *first, g float64) float64 {
		g *= float64(min(1, float32(o.Clip)/float32(f.Norm)))
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
