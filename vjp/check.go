package vjp

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Runner compiles a program and returns the function evaluating it. Check needs a Runner,
// because this package runs nothing itself.
type Runner func(p *graph.Program) (Eval, error)

// Eval evaluates a program on arrays by input name, returning its results.
type Eval func(ctx context.Context, in map[string]array.Array) ([]array.Array, error)

// CheckOptions are the options of Check.
type CheckOptions struct {
	// Wrt names the inputs to check; an empty list means every input of float type.
	Wrt []string
	// Step is the step of the central differences, relative to the larger of 1 and
	// the element's absolute value; 0 means 1e-5, which suits f64.
	Step float64
	// Tolerance is the largest allowed difference between the analytic and the numeric
	// derivative, relative to the input's largest derivative of either kind; 0 means
	// 1e-6. If central differences are less exact than that, the allowance is their
	// uncertainty, limited to Tolerance, or the rounding of the results, which large
	// results have more of.
	Tolerance float64
	// Elements is the largest number of elements to perturb per input, chosen at
	// random; 0 means all.
	Elements int
	// Seed determines the random cotangents and the choice of elements.
	Seed uint64
}

// Report is the outcome of a check.
type Report struct {
	Program string        `json:"program"`
	Inputs  []InputReport `json:"inputs"`
}

// InputReport is the outcome for one input.
type InputReport struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Checked  int     `json:"checked"`  // elements compared
	Rerouted int     `json:"rerouted"` // elements skipped because the step changed a discrete choice
	Via      string  `json:"via,omitempty"`
	Worst    Element `json:"worst"`
	Bound    float64 `json:"bound"` // the error allowed at the worst element
	Rounding float64 `json:"-"`     // of its difference, because of the size of the results
	OK       bool    `json:"ok"`
}

// Element is one comparison.
type Element struct {
	Index    []int   `json:"index"`
	Analytic float64 `json:"analytic"`
	Numeric  float64 `json:"numeric"`
	Error    float64 `json:"error"`
}

// MarshalJSON writes the numbers missing in JSON as strings: "NaN", "+Inf".
func (e Element) MarshalJSON() ([]byte, error) {
	number := func(x float64) any {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprint(x)
		}
		return x
	}
	return json.Marshal(map[string]any{"index": e.Index, "analytic": number(e.Analytic), "numeric": number(e.Numeric), "error": number(e.Error)})
}

// OK reports whether every input passed.
func (r *Report) OK() bool {
	for _, in := range r.Inputs {
		if !in.OK {
			return false
		}
	}
	return true
}

// String prints one line per input, with the worst element.
func (r *Report) String() string {
	var b strings.Builder
	for _, in := range r.Inputs {
		verdict, advice := "ok", ""
		switch {
		case math.IsNaN(in.Worst.Numeric):
			verdict, advice = "NaN", "; the results are not finite at or near this element, so there is no derivative to compare: choose other inputs"
		case !in.OK && in.Worst.Error <= in.Rounding:
			verdict, advice = "WRONG", fmt.Sprintf("; results as large as these round differences to %.2g: scale them down", in.Rounding)
		case !in.OK:
			verdict = "WRONG"
		}
		fmt.Fprintf(&b, "%-6s %s %s: %d checked", verdict, in.Name, in.Type, in.Checked)
		if in.Rerouted > 0 {
			fmt.Fprintf(&b, ", %d left out: routing changed (%s)", in.Rerouted, in.Via)
		}
		if in.Checked > 0 {
			fmt.Fprintf(&b, "; worst at %v: derivative %.9g, differences %.9g, error %.2g (allowed %.2g)",
				in.Worst.Index, in.Worst.Analytic, in.Worst.Numeric, in.Worst.Error, in.Bound)
		}
		b.WriteString(advice + "\n")
	}
	return b.String()
}

// Check compares the derivative of p at the arrays in with central differences, for
// random cotangents of p's results. If a step changes an integer or boolean value of the
// program depending on the input (a top-k choice, a comparison), the function has a jump
// or a kink there: the element is counted as rerouted and not compared. Choices among
// rows in expert order cannot be observed: if a step changes such a choice, the element
// is compared and may seem wrong. Check is meant for programs in f64.
func Check(ctx context.Context, p *graph.Program, in map[string]array.Array, run Runner, opts CheckOptions) (*Report, error) {
	names, err := resolve(p, opts.Wrt)
	if err != nil {
		return nil, err
	}
	c, err := newChecker(ctx, p, in, run, opts, names)
	if err != nil {
		return nil, err
	}
	rep := &Report{Program: p.Name}
	for i, name := range names {
		ir, err := c.input(ctx, name, c.analytic[i])
		if err != nil {
			return nil, err
		}
		rep.Inputs = append(rep.Inputs, ir)
	}
	return rep, nil
}

type checker struct {
	p        *graph.Program
	in       map[string]array.Array
	opts     CheckOptions
	eval     Eval
	choices  []*graph.Value // discrete values, appended to p's results
	base     []array.Array  // their values at in
	ct       [][]float64    // per result, nil for discrete ones
	size     float64        // sum of |ct·y| over the results y at in
	analytic []array.Array  // per wrt
	rng      *rand.Rand
}

func newChecker(ctx context.Context, p *graph.Program, in map[string]array.Array, run Runner, opts CheckOptions, names []string) (*checker, error) {
	if opts.Step == 0 {
		opts.Step = 1e-5
	}
	if opts.Tolerance == 0 {
		opts.Tolerance = 1e-6
	}
	c := &checker{p: p, in: map[string]array.Array{}, opts: opts, rng: rand.New(rand.NewPCG(opts.Seed, 1))}
	for k, a := range in {
		c.in[k] = a
	}
	q, err := graph.Inline(ctx, p)
	if err != nil {
		return nil, err
	}
	if c.eval, c.choices, err = observe(q, discrete(q, names), run); err != nil {
		return nil, err
	}
	pull, err := Pullback(p, names...)
	if err != nil {
		return nil, err
	}
	back, err := run(pull)
	if err != nil {
		return nil, err
	}
	args := map[string]array.Array{}
	for k, a := range in {
		args[k] = a
	}
	cts := pull.In[len(p.In):]
	for _, v := range p.Out {
		if !v.Type.DType.IsFloat() {
			c.ct = append(c.ct, nil)
			continue
		}
		ct := make([]float64, v.Type.Len())
		for j := range ct {
			ct[j] = c.rng.Float64()*2 - 1
		}
		c.ct = append(c.ct, ct)
		a := array.New(v.Type)
		if err := a.SetFloat64s(ct); err != nil {
			return nil, err
		}
		args[cts[0].Name], cts = a, cts[1:]
	}
	if c.analytic, err = back(ctx, args); err != nil {
		return nil, err
	}
	out, err := c.eval(ctx, c.in)
	if err != nil {
		return nil, err
	}
	c.base = out[len(p.Out):]
	c.size = c.dot(out, math.Abs)
	return c, nil
}

// observe returns an evaluation of p's results followed by the choices that can be
// results. Rows in expert order cannot.
func observe(p *graph.Program, choices []*graph.Value, run Runner) (Eval, []*graph.Value, error) {
	with := func(choices ...*graph.Value) (Eval, error) {
		return run(&graph.Program{Name: p.Name, In: p.In, Eqns: p.Eqns, Out: append(append([]*graph.Value(nil), p.Out...), choices...)})
	}
	if eval, err := with(choices...); err == nil {
		return eval, choices, nil
	}
	var seen []*graph.Value
	for _, v := range choices {
		if _, err := with(v); err == nil {
			seen = append(seen, v)
		}
	}
	eval, err := with(seen...)
	return eval, seen, err
}

// discrete returns the integer and boolean values depending on wrt.
func discrete(p *graph.Program, wrt []string) []*graph.Value {
	dep := map[*graph.Value]bool{}
	for _, n := range wrt {
		dep[p.Input(n)] = true
	}
	var out []*graph.Value
	for _, e := range p.Eqns {
		any := false
		for _, v := range e.In {
			any = any || dep[v]
		}
		for _, v := range e.Out {
			if any {
				dep[v] = true
				if !v.Type.DType.IsFloat() {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// input compares the derivative with respect to one input. The worst element has the
// largest error relative to its bound.
func (c *checker) input(ctx context.Context, name string, analytic array.Array) (InputReport, error) {
	x := c.in[name]
	an := analytic.Float64s()
	scale := 0.0
	grow := func(g float64) {
		if !math.IsNaN(g) && !math.IsInf(g, 0) {
			scale = max(scale, math.Abs(g))
		}
	}
	for _, g := range an {
		grow(g)
	}
	rep := InputReport{Name: name, Type: x.Type.String(), OK: true}
	order := c.rng.Perm(len(an))
	if c.opts.Elements > 0 && c.opts.Elements < len(order) {
		order = order[:c.opts.Elements]
	}
	numeric := map[int]float64{}
	leave := func(via string) {
		rep.Rerouted++
		rep.Via = via
	}
	for _, i := range order {
		num, via, err := c.difference(ctx, name, x, i, 1)
		if err != nil {
			return rep, err
		}
		if via != "" {
			leave(via)
			continue
		}
		numeric[i] = num
		grow(num)
	}
	worst := -1.0
	for _, i := range order {
		num, ok := numeric[i]
		if !ok {
			continue
		}
		e := math.Abs(num - an[i])
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		allowed := c.opts.Tolerance * scale
		most, rounding := c.opts.Tolerance*max(1, scale), c.rounding(x, i)
		if e > allowed && e <= most {
			u, via, err := c.uncertainty(ctx, name, x, i, num)
			if err != nil {
				return rep, err
			}
			if via != "" {
				leave(via)
				continue
			}
			allowed = min(max(allowed, u), most)
		} else if e > most && rounding <= meaningful*scale {
			allowed = max(allowed, rounding)
		}
		rep.Checked++
		badness := 0.0
		if e > 0 {
			badness = e / allowed
		}
		if badness > worst {
			worst, rep.Bound, rep.Rounding = badness, allowed, rounding
			rep.Worst = Element{unflatten(x.Type.Shape, i), an[i], num, e}
		}
		rep.OK = rep.OK && e <= allowed
	}
	return rep, nil
}

// meaningful is the largest rounding of differences, relative to the largest derivative, that a check allows for.
const meaningful = 1e-3

// uncertainty returns the possible error of num, the central difference at element i. If
// the function is smooth, doubling the step quadruples the error of the difference;
// rounding in the evaluations is added.
func (c *checker) uncertainty(ctx context.Context, name string, x array.Array, i int, num float64) (u float64, via string, err error) {
	twice, via, err := c.difference(ctx, name, x, i, 2)
	if err != nil || via != "" {
		return 0, via, err
	}
	const rounding = 16 * 0x1p-52 // relative error of a value, from the operations computing it
	return 2*math.Abs(twice-num) + rounding*c.size/c.opts.Step, "", nil
}

// rounding returns the possible error of a central difference at element i because both
// evaluations round their results, and the sum of these, to f64.
func (c *checker) rounding(x array.Array, i int) float64 {
	return 0x1p-52 * c.size / c.distance(x.Float64s()[i])
}

// distance returns the step of a central difference at x.
func (c *checker) distance(x float64) float64 { return c.opts.Step * max(1, math.Abs(x)) }

// difference returns the central difference at element i over that many steps, or the
// name of the primitive with a discrete result that changed between the two evaluations.
func (c *checker) difference(ctx context.Context, name string, x array.Array, i int, steps float64) (d float64, via string, err error) {
	defer func() { c.in[name] = x }()
	at := x.Float64s()
	x0 := at[i]
	f := func(v float64) float64 {
		if err != nil {
			return 0
		}
		at[i] = v
		moved := array.New(x.Type)
		if err = moved.SetFloat64s(at); err != nil {
			return 0
		}
		c.in[name] = moved
		var out []array.Array
		if out, err = c.eval(ctx, c.in); err != nil {
			return 0
		}
		for k, v := range c.choices {
			if via == "" && !array.Equal(out[len(c.p.Out)+k], c.base[k]) {
				via = fmt.Sprintf("%s at %s", v.Def.Prim.Name(), v.Def.Pos)
			}
		}
		return c.dot(out, func(y float64) float64 { return y })
	}
	d = fd.Derivative(f, x0, &fd.Settings{Formula: fd.Central, Step: steps * c.distance(x0)})
	return d, via, err
}

// dot is the inner product of the results with their cotangents, the sum of f of all
// products.
func (c *checker) dot(out []array.Array, f func(float64) float64) float64 {
	s := 0.0
	for i, ct := range c.ct {
		if ct == nil {
			continue
		}
		for j, y := range out[i].Float64s() {
			s += f(ct[j] * y)
		}
	}
	return s
}

func unflatten(shape []int, i int) []int {
	idx := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		idx[d] = i % shape[d]
		i /= shape[d]
	}
	return idx
}
