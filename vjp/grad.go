package vjp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Gradients adds to the trace the derivative of loss, a scalar of float type, with
// respect to each of wrt. It returns the gradients, each of the type of its value. The
// gradient of a value that loss does not depend on is zeros.
//
// A gradient has the placement of its value, and the gradient of a value named x is named
// grad(x). Mistakes stop the trace at the user's line.
func Gradients(loss *graph.Value, wrt ...*graph.Value) []*graph.Value {
	graph.Helper()
	if loss == nil {
		graph.Fail("gradient of a value that is nil")
	}
	t := tracer([]*graph.Value{loss})
	if loss.Rank() != 0 || !loss.Type.DType.IsFloat() {
		graph.Fail("gradient of %s: want a scalar of float type; reduce it with reduce_sum first", loss.Type)
	}
	seed := t.Apply(graph.FullOp{Value: 1, DType: loss.Type.DType})[0]
	return Backward([]*graph.Value{loss}, []*graph.Value{seed}, wrt)
}

// Backward adds to the trace the cotangents of wrt, given the cotangents ct of the values
// out. ct has one entry per value of out, of the same type; nil means zero. Each
// cotangent has the placement of its value.
func Backward(out, ct, wrt []*graph.Value) []*graph.Value {
	graph.Helper()
	t := tracer(out, wrt)
	if len(ct) != len(out) {
		graph.Fail("%d cotangents for %d values; give one for each, nil for zero", len(ct), len(out))
	}
	for i, v := range out {
		if want := v.Type.Cotangent(); ct[i] != nil && !ct[i].Type.Equal(want) {
			graph.Fail("cotangent %d is %s, want %s for a value of %s", i, ct[i].Type, want, v.Type)
		}
	}
	for _, v := range wrt {
		switch {
		case v == nil:
			graph.Fail("gradient with respect to a value that is nil")
		case !v.Type.DType.IsFloat():
			graph.Fail("gradient with respect to %s %s: only float types have one", v.Name, v.Type)
		}
	}
	out, wrt = inside(t, out), inside(t, wrt)
	grads := cotangents(t, out, ct, wrt)
	for i, v := range wrt {
		grads[i] = t.Apply(graph.PlaceLikeOp{}, instantiate(t, grads[i], v), v)[0]
		if v.Name != "" {
			grads[i].Named("grad(" + v.Name + ")")
		}
	}
	return grads
}

// inside returns the values in the trace t, which may be the body of a loop.
func inside(t *graph.Tracer, vs []*graph.Value) []*graph.Value {
	in := make([]*graph.Value, len(vs))
	for i, v := range vs {
		in[i] = t.Inside(v)
	}
	return in
}

// cotangents is Backward without placement. The cotangent of a value that no result
// depends on is nil.
func cotangents(t *graph.Tracer, out, ct, wrt []*graph.Value) []*graph.Value {
	b := &backward{t: t, ct: map[*graph.Value][]*graph.Value{}, needed: map[*graph.Value]bool{}}
	eqns := reaching(t.Eqns(), out, wrt) // without the equations added below
	b.need(eqns, wrt)
	for i, v := range out {
		if ct[i] != nil && b.needed[v] {
			b.ct[v] = append(b.ct[v], ct[i])
		}
	}
	for i := len(eqns) - 1; i >= 0; i-- {
		b.step(eqns[i])
	}
	grads := make([]*graph.Value, len(wrt))
	for i, v := range wrt {
		grads[i] = b.sum(v)
	}
	return grads
}

// reaching returns the last of eqns, beginning with the first one between wrt and out. A rule that differentiates a few
// equations at the end of a long trace thus looks at no others.
func reaching(eqns []*graph.Eqn, out, wrt []*graph.Value) []*graph.Eqn {
	open := map[*graph.Value]bool{} // values whose equations have not been found
	follow := func(vs []*graph.Value) {
		for _, v := range vs {
			if v.Def != nil && v.Type.DType.Cotangent() != graph.NoDType && !(len(wrt) == 1 && v == wrt[0]) {
				open[v] = true
			}
		}
	}
	follow(out)
	first := len(eqns)
	for ; first > 0 && len(open) > 0; first-- {
		e := eqns[first-1]
		if slices.ContainsFunc(e.Out, func(v *graph.Value) bool { return open[v] }) {
			follow(e.In)
			for _, v := range e.Out {
				delete(open, v)
			}
		}
	}
	return eqns[first:]
}

func tracer(lists ...[]*graph.Value) *graph.Tracer {
	graph.Helper()
	if t := graph.TracerOf(slices.Concat(lists...)...); t != nil {
		return t
	}
	graph.Fail("gradient of values outside of a trace; call it inside the function given to Trace, or use Grad")
	return nil
}

type backward struct {
	t      *graph.Tracer
	ct     map[*graph.Value][]*graph.Value // cotangents that reached a value, in order
	needed map[*graph.Value]bool           // depends on wrt through float values
}

// need marks the values between wrt and the results, so that only necessary
// equations are differentiated.
func (b *backward) need(eqns []*graph.Eqn, wrt []*graph.Value) {
	for _, v := range wrt {
		b.needed[v] = true
	}
	for _, e := range eqns {
		any := false
		for _, v := range e.In {
			any = any || b.needed[v]
		}
		for _, v := range e.Out {
			if any && v.Type.DType.Cotangent() != graph.NoDType {
				b.needed[v] = true
			}
		}
	}
}

// step sends the cotangents of e's results to its arguments.
func (b *backward) step(e *graph.Eqn) {
	if !slices.ContainsFunc(e.In, func(v *graph.Value) bool { return b.needed[v] }) {
		return // e has no cotangent to pass on
	}
	ct := make([]*graph.Value, len(e.Out))
	live := false
	b.t.At(e.Pos, func() {
		for i, v := range e.Out {
			ct[i] = b.sum(v)
			live = live || ct[i] != nil
		}
		if !live {
			return
		}
		in, err := apply(b.t, e, ct, b.needed)
		if err == nil && in != nil && len(in) != len(e.In) {
			err = fmt.Errorf("the derivative rule answered for %d arguments, want %d", len(in), len(e.In))
		}
		for i, g := range in {
			if err == nil && g != nil && !g.Type.Equal(e.In[i].Type.Cotangent()) {
				err = fmt.Errorf("the cotangent of argument %d is %s, want %s", i, g.Type, e.In[i].Type.Cotangent())
			}
		}
		if err != nil {
			graph.FailAt(e, err)
		}
		for i, g := range in {
			if g != nil && b.needed[e.In[i]] {
				b.ct[e.In[i]] = append(b.ct[e.In[i]], g)
			}
		}
	})
}

// sum returns the cotangent of v: nil, a single cotangent, or the sum of several. The sum
// is cached, so a second call returns the same value.
func (b *backward) sum(v *graph.Value) *graph.Value {
	switch cts := b.ct[v]; len(cts) {
	case 0:
		return nil
	case 1:
		return cts[0]
	default:
		s := b.t.Apply(graph.AddAnyOp{}, cts...)[0]
		b.ct[v] = []*graph.Value{s}
		return s
	}
}

// Grad returns the program with p's inputs and with p's results followed by the gradients
// of p's first result, a scalar of float type, with respect to the named inputs. If no
// names are given, these are all inputs of float type. The gradient of x is named
// grad(x).
func Grad(p *graph.Program, wrt ...string) (*graph.Program, error) {
	names, err := resolve(p, wrt)
	if err != nil {
		return nil, err
	}
	if len(p.Out) == 0 {
		return nil, fmt.Errorf("vjp: program %s has no result to differentiate", p.Name)
	}
	if l := p.Out[0].Type; l.Rank() != 0 || !l.DType.IsFloat() {
		return nil, fmt.Errorf("vjp: the first result of program %s is %s, want a scalar of float type; reduce it with reduce_sum", p.Name, l)
	}
	return graph.Trace(p.Name+"_grad", func(t *graph.Tracer) []*graph.Value {
		args, vals := inputs(t, p, names)
		out := t.Replay(p, args)
		var grads []*graph.Value
		t.At(posOf(p.Out[:1]), func() { grads = Gradients(out[0], vals...) })
		return append(out, grads...)
	})
}

// Pullback returns the program with p's inputs followed by a cotangent ct_i for every
// result i of float type (ct2_i if that name is taken, and so on). Its results are the
// cotangents of the named inputs, or of all inputs of float type if no names are given.
func Pullback(p *graph.Program, wrt ...string) (*graph.Program, error) {
	names, err := resolve(p, wrt)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{} // the prefixes of input names before the first _
	for _, v := range p.In {
		if before, _, ok := strings.Cut(v.Name, "_"); ok {
			taken[before] = true
		}
	}
	prefix := "ct"
	for n := 2; taken[prefix]; n++ {
		prefix = fmt.Sprintf("ct%d", n)
	}
	return graph.Trace(p.Name+"_vjp", func(t *graph.Tracer) []*graph.Value {
		args, vals := inputs(t, p, names)
		out := t.Replay(p, args)
		ct := make([]*graph.Value, len(out))
		for i, v := range out {
			if v.Type.DType.IsFloat() {
				ct[i] = t.Input(fmt.Sprintf("%s_%d", prefix, i), v.Type.DType, v.Type.Shape...)
			}
		}
		var grads []*graph.Value
		t.At(posOf(p.Out), func() { grads = Backward(out, ct, vals) })
		return grads
	})
}

// posOf returns the line of the last equation making one of vs. A program is
// differentiated far from the code that built it, so equations of the derivative without
// an equation of the program to blame (seeds, placements) are reported at that line.
func posOf(vs []*graph.Value) graph.Pos {
	for i := len(vs) - 1; i >= 0; i-- {
		if vs[i].Def != nil {
			return vs[i].Def.Pos
		}
	}
	return graph.Pos{}
}

func inputs(t *graph.Tracer, p *graph.Program, names []string) (args, vals []*graph.Value) {
	byName := map[string]*graph.Value{}
	for _, v := range p.In {
		x := t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		args = append(args, x)
		byName[v.Name] = x
	}
	for _, n := range names {
		vals = append(vals, byName[n])
	}
	return args, vals
}

func resolve(p *graph.Program, wrt []string) ([]string, error) {
	if p == nil {
		return nil, errors.New("vjp: the program is nil")
	}
	var floats []string
	byName := map[string]*graph.Value{}
	for _, v := range p.In {
		byName[v.Name] = v
		if v.Type.DType.IsFloat() {
			floats = append(floats, v.Name)
		}
	}
	if len(wrt) == 0 {
		return floats, nil
	}
	for _, n := range wrt {
		v := byName[n]
		if v == nil {
			return nil, fmt.Errorf("vjp: program %s has no input %q; inputs of float type are %s", p.Name, n, strings.Join(floats, ", "))
		}
		if !v.Type.DType.IsFloat() {
			return nil, fmt.Errorf("vjp: input %s is %s; only float types have a gradient: %s", n, v.Type, strings.Join(floats, ", "))
		}
	}
	return wrt, nil
}
