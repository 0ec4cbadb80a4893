package lm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// tolerances are the permitted differences between the mesh and a single rank, of the loss, the norm of the
// gradient and its elements. The last is relative to the largest element of each weight's gradient.
type tolerances struct{ loss, norm, gradient float64 }

// allowed returns the tolerances. Sums over ranks add terms in a different order than sums on one rank. With tp, so
// does the forward pass, and its differences grow in the backward pass. In f32, over many sizes, seeds and meshes
// the largest differences were 7e-7, and 1e-6 with tp.
//
// In bf16 every rank rounds its contribution to a weight's gradient, with a relative error of at most 2^-9. The
// largest differences were 6e-3, and 4e-4 for the norm. With tp, ranks also round their contributions to
// activations, so tokens scoring two experts almost equally may switch between them. Elements of gradients then
// cannot be compared, but loss and norm differ by no more than 2e-3 and 3e-2.
//
// With -exact nothing differs.
func (o *Options) allowed() tolerances {
	tp, bf16 := o.Mesh.Size("tp") > 1, o.DType == graph.BF16
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

// residue is the permitted difference between updated weights on the mesh and on one rank, relative to the largest
// element, after subtracting the effect of AdamW on the difference between their gradients. AdamW computes in f64
// and rounds once, so each result has an error of at most half a unit in the last place, 2^-24 of the largest
// element. Twice the sum of both errors leaves a margin for the comparison itself.
const residue = 0x1p-22

// errCheck reports a disagreement between one rank and the mesh.
var errCheck = errors.New("one rank and the mesh disagree")

// check runs one step on one rank and on the mesh, with the same weights and text, and compares the loss, all
// gradients and the updated weights. Without tp the losses must be identical, in f32 and in bf16. It prints the
// largest differences and returns errCheck if one is too large.
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

// A first holds the results of the first step, along with its gradients and updated weights by name, on the host.
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
		return nil, step.Lighter(ctx, err, cfg, c.lighter(o))
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

// compare prints the differences between the first step on one rank and on many ranks. It returns errCheck, naming
// the differing quantities, if one is too large.
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

// differences returns the largest difference of a weight's gradient, the largest difference of its updated
// elements, and the part of the latter which AdamW does not explain by the former, each relative to the largest
// element. They are infinite if a number is not finite.
//
// AdamW's first step divides the gradient by its own size: it subtracts lr·move(g), where move(g) = g/(|g|+eps),
// and lr·decay·p, which is the same on both. So an element with a gradient of little more than rounding error may
// move by lr in either direction, and a bound on the updated weights alone would have to allow for that.
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

// worse returns the larger of size and |d|, or infinity if d is NaN.
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
