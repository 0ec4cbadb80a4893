package vjp

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// scan adds the derivative of the loop e to the trace: a loop over the same iterations in
// reverse order. It carries the cotangents of the carried values, and the sums of the
// cotangents of the constants. Its body is the recomputed body of e followed by its
// derivative. It returns one cotangent per argument of e, nil for an argument that no
// result with a cotangent depends on, or nil for all of them. A loop without iterations
// returns the cotangents of the carried values.
//
// A carried value takes part only if it depends on a value needing a cotangent, and a
// result with a cotangent depends on it, perhaps an iteration later: a cotangent of zeros
// becomes NaN when multiplied by an infinite derivative.
//
// Values of an iteration of e that the new body reads become further results of e.
// Without Keep these are the values carried into the iteration. With Keep these are all
// values that the derivative uses, and the body of e is not recomputed.
func scan(t *graph.Tracer, e *graph.Eqn, ct []*graph.Value, needed map[*graph.Value]bool) ([]*graph.Value, error) {
	if s := e.Prim.(graph.ScanOp); s.Length == 0 { // the carried values are returned unchanged
		grads := make([]*graph.Value, len(e.In))
		copy(grads[s.Consts:], ct[:s.Carry])
		return grads, nil
	}
	l := newLoop(t, e, ct, needed)
	body, consts := l.body()
	if len(body.Out) == 0 { // the cotangents reach nothing
		return nil, nil
	}
	if !l.s.Keep {
		forward := *l.s.Body
		forward.Out = slices.Concat(forward.Out, forward.In[l.s.Consts:][:l.s.Carry])
		saved, err := l.save(&forward)
		if err != nil {
			return nil, err
		}
		return l.apply(body, consts, saved), nil
	}
	used := l.used(body)
	forward, err := l.forward(used)
	if err != nil {
		return nil, err
	}
	saved, err := l.save(forward)
	if err != nil {
		return nil, err
	}
	l.saved = nil
	for _, v := range used {
		l.saved = append(l.saved, graph.Input{Name: v.Name, Type: v.Type})
	}
	rest, restConsts := t.Body(body.Name, l.inputs(), func(b *graph.Tracer, in []*graph.Value) []*graph.Value {
		return l.rest(b, body, consts, used, in)
	})
	return l.apply(rest, restConsts, saved), nil
}

// loop is the derivative of a loop under construction.
type loop struct {
	t              *graph.Tracer
	e              *graph.Eqn
	s              graph.ScanOp
	consts         []*graph.Value   // arguments of e
	each           [][]*graph.Value // arguments of e
	depend         []int            // the carried values depending on a needed value
	carried        []int            // those among depend that have cotangents
	ctCarry        []*graph.Value   // the cotangents of the last carried values, nil for zero
	summed, sliced []int            // indices of the constants, and of the inputs of an iteration, that need cotangents
	known          []int            // indices of the results of an iteration that have cotangents
	ct             [][]*graph.Value // these cotangents
	saved          []graph.Input    // the values of an iteration of e that the new body reads

	// The recomputed body of e in the trace of the new body: its arguments, its results,
	// and its equations.
	args, out []*graph.Value
	computed  []*graph.Eqn
	// The arguments receiving cotangents in one iteration: the values in depend, summed
	// and sliced.
	reached, reachedConsts, reachedEach []int
}

func newLoop(t *graph.Tracer, e *graph.Eqn, ct []*graph.Value, needed map[*graph.Value]bool) *loop {
	// Remat gives its rules copies of the equations that it adds, or of equations that it
	// does not add because their results are kept. Only equations in the trace can be
	// extended.
	if d := e.Out[0].Def; d != nil && slices.Equal(d.In, e.In) {
		if _, ok := d.Prim.(graph.ScanOp); ok {
			e, ct = d, append(slices.Clone(ct), make([]*graph.Value, len(d.Out)-len(ct))...)
		}
	}
	l := &loop{t: t, e: e, s: e.Prim.(graph.ScanOp)}
	l.consts, _, l.each = graph.ScanArgs(l.s, e.In)
	last, ctEach := graph.ScanResults(l.s, ct)
	_, made := graph.ScanResults(l.s, e.Out)
	l.ctCarry = last
	l.depend = l.depending(needed)
	for _, i := range l.depend {
		if l.ctCarry[i] != nil {
			l.carried = append(l.carried, i)
		}
	}
	for i, v := range l.consts {
		if v.Type.DType.Cotangent() != graph.NoDType && needed[v] && !slices.Contains(l.consts[:i], v) {
			l.summed = append(l.summed, i)
		}
	}
	for j, vs := range l.each {
		if vs[0].Type.DType.Cotangent() != graph.NoDType && slices.ContainsFunc(vs, func(v *graph.Value) bool { return needed[v] }) {
			l.sliced = append(l.sliced, j)
		}
	}
	for j, c := range ctEach {
		if !slices.ContainsFunc(c, func(v *graph.Value) bool { return v != nil }) {
			continue
		}
		all := make([]*graph.Value, len(c))
		for k := range c {
			all[k] = instantiate(t, c[k], made[j][k])
		}
		l.known, l.ct = append(l.known, j), append(l.ct, all)
	}
	for _, v := range l.s.Body.In[l.s.Consts:][:l.s.Carry] {
		l.saved = append(l.saved, graph.Input{Name: v.Name, Type: v.Type})
	}
	return l
}

// depending returns the carried values of float type depending on a needed value in some
// iteration.
func (l *loop) depending(needed map[*graph.Value]bool) []int {
	first, _, _ := graph.ScanArgs(l.s, l.e.In)
	n := len(first)
	b := &backward{needed: map[*graph.Value]bool{}}
	for i, v := range l.s.Body.In {
		switch {
		case i < n+l.s.Carry:
			b.needed[v] = needed[l.e.In[i]]
		default:
			b.needed[v] = slices.ContainsFunc(l.each[i-n-l.s.Carry], func(v *graph.Value) bool { return needed[v] })
		}
	}
	carry := l.s.Body.In[n:][:l.s.Carry]
	for again := true; again; {
		b.need(l.s.Body.Eqns, nil)
		again = false
		for i, v := range l.s.Body.Out[:l.s.Carry] {
			if b.needed[v] && !b.needed[carry[i]] {
				b.needed[carry[i]], again = true, true
			}
		}
	}
	var list []int
	for i, v := range carry {
		if b.needed[v] && v.Type.DType.Cotangent() != graph.NoDType {
			list = append(list, i)
		}
	}
	return list
}

// body traces the new body repeatedly, until it carries exactly the cotangents that are
// needed: a carried value with a cotangent in one iteration has one in the iteration
// before.
func (l *loop) body() (*graph.Program, []*graph.Value) {
	for {
		body, consts := l.t.Body(l.s.Body.Name+"_vjp", l.inputs(), l.again)
		grown := slices.Clone(l.carried)
		for _, i := range l.reached {
			if !slices.Contains(grown, i) {
				grown = append(grown, i)
			}
		}
		if slices.Sort(grown); len(grown) > len(l.carried) {
			l.carried = grown
			continue
		}
		same := len(l.reachedConsts) == len(l.summed) && len(l.reachedEach) == len(l.sliced)
		if l.summed, l.sliced = l.reachedConsts, l.reachedEach; same {
			return body, consts
		}
	}
}

// inputs returns the inputs of the new body after its constants: its carried values, the
// inputs of an iteration of e, the values saved from the iteration, and the cotangents of
// its results.
func (l *loop) inputs() []graph.Input {
	var in []graph.Input
	for _, i := range l.carried {
		in = append(in, graph.Input{Name: "ct", Type: l.e.Out[i].Type.Cotangent()})
	}
	for _, i := range l.summed {
		in = append(in, graph.Input{Name: "ct", Type: l.consts[i].Type.Cotangent()})
	}
	for _, v := range l.s.Body.In[l.s.Consts+l.s.Carry:] {
		in = append(in, graph.Input{Name: v.Name, Type: v.Type})
	}
	in = append(in, l.saved...)
	for _, j := range l.known {
		in = append(in, graph.Input{Name: "ct", Type: l.s.Body.Out[l.s.Carry+j].Type.Cotangent()})
	}
	return in
}

// again builds the new body: the recomputed body of e and its derivative.
func (l *loop) again(b *graph.Tracer, in []*graph.Value) []*graph.Value {
	carry, each, saved, ctEach := l.split(in)
	l.args = nil
	for _, v := range l.consts {
		l.args = append(l.args, b.Inside(v))
	}
	l.args = slices.Concat(l.args, saved, each)
	env := map[*graph.Value]*graph.Value{}
	for i, v := range l.s.Body.In {
		env[v] = l.args[i]
	}
	replay(b, l.s.Body.Eqns, env)
	l.out = values(env, l.s.Body.Out)
	l.computed = slices.Clone(b.Eqns())
	ct := make([]*graph.Value, len(l.out))
	for k, i := range l.carried {
		ct[i] = carry[k]
	}
	for k, j := range l.known {
		ct[l.s.Carry+j] = ctEach[k]
	}
	var wrt []*graph.Value
	for _, i := range l.depend {
		wrt = append(wrt, saved[i])
	}
	for _, i := range l.summed {
		wrt = append(wrt, l.args[i])
	}
	for _, j := range l.sliced {
		wrt = append(wrt, each[j])
	}
	grads := cotangents(b, l.out, ct, wrt)
	of := make(map[*graph.Value]*graph.Value, len(wrt)) // the cotangent of a value, nil for zero
	for i, v := range wrt {
		of[v] = grads[i]
	}
	like := func(v *graph.Value) *graph.Value {
		return b.Apply(graph.PlaceLikeOp{}, instantiate(b, of[v], v), v)[0]
	}
	l.reached, l.reachedConsts, l.reachedEach = nil, nil, nil
	for _, i := range l.depend {
		if of[saved[i]] != nil {
			l.reached = append(l.reached, i)
		}
	}
	var out []*graph.Value
	for _, i := range l.carried {
		out = append(out, like(saved[i]))
	}
	for k, i := range l.summed {
		sum := carry[len(l.carried)+k]
		if g := of[l.args[i]]; g != nil {
			sum = b.Apply(graph.AddAnyOp{}, sum, g)[0] // pending sums stay pending until the loop has ended
			l.reachedConsts = append(l.reachedConsts, i)
		}
		out = append(out, sum)
	}
	for _, j := range l.sliced {
		if of[each[j]] != nil {
			l.reachedEach = append(l.reachedEach, j)
		}
		out = append(out, like(each[j]))
	}
	return out
}

// split divides the inputs of the new body.
func (l *loop) split(in []*graph.Value) (carry, each, saved, ct []*graph.Value) {
	cut := func(n int) (part []*graph.Value) {
		part, in = in[:n:n], in[n:]
		return part
	}
	return cut(len(l.carried) + len(l.summed)), cut(len(l.each)), cut(len(l.saved)), in
}

// used returns the values that the derivative reads among the values computed by the body
// of e and the values carried into it, in the order of reading.
func (l *loop) used(body *graph.Program) []*graph.Value {
	forward := map[*graph.Value]bool{}
	for _, v := range l.args[l.s.Consts:][:l.s.Carry] {
		forward[v] = true
	}
	for _, e := range l.computed {
		if len(e.In) > 0 { // constants are made again
			for _, v := range e.Out {
				forward[v] = true
			}
		}
	}
	var used []*graph.Value
	use := func(vs []*graph.Value) {
		for _, v := range vs {
			if forward[v] && !slices.Contains(used, v) {
				used = append(used, v)
			}
		}
	}
	for _, e := range body.Eqns[len(l.computed):] {
		use(e.In)
	}
	use(body.Out)
	return used
}

// forward returns the recomputed body of e, with the values used as further results. The
// derivative may have given loops inside it further results, so they may differ from the
// loops in e's body.
func (l *loop) forward(used []*graph.Value) (*graph.Program, error) {
	return graph.Trace(l.s.Body.Name, func(t *graph.Tracer) []*graph.Value {
		env := map[*graph.Value]*graph.Value{}
		for i, v := range l.s.Body.In {
			env[l.args[i]] = t.Input(v.Name, v.Type.DType, v.Type.Shape...)
		}
		replay(t, l.computed, env)
		return values(env, slices.Concat(l.out, used))
	})
}

// rest builds the new body without the equations of e's body; it reads their saved
// results.
func (l *loop) rest(b *graph.Tracer, body *graph.Program, consts, used, in []*graph.Value) []*graph.Value {
	env := map[*graph.Value]*graph.Value{}
	for i, v := range consts {
		env[body.In[i]] = v
	}
	carry, each, saved, ct := l.split(in)
	old := body.In[len(consts):]
	for i, v := range slices.Concat(carry, each) {
		env[old[i]] = v
	}
	for i, v := range ct {
		env[old[len(old)-len(ct)+i]] = v
	}
	for i, v := range used {
		env[v] = saved[i]
	}
	var eqns []*graph.Eqn
	for _, e := range l.computed {
		if len(e.In) == 0 {
			eqns = append(eqns, e)
		}
	}
	replay(b, append(eqns, body.Eqns[len(l.computed):]...), env)
	return values(env, body.Out)
}

// save makes forward, which has further results after the results of e's body, the body
// of e. It returns these results, stacked. A result that e already has is not added
// again.
func (l *loop) save(forward *graph.Program) ([]*graph.Value, error) {
	s, has := l.s, len(l.s.Body.Out)
	body := *forward
	body.Out = slices.Clone(forward.Out[:has])
	at := make([]int, len(forward.Out)-has) // for each further result: its index among the results of an iteration
	for k, v := range forward.Out[has:] {
		at[k] = -1
		for j, w := range body.Out[s.Carry:] {
			if w == v && !slices.Contains(s.OutTables, j) {
				at[k] = j
			}
		}
		if at[k] < 0 {
			at[k] = len(body.Out) - s.Carry
			body.Out = append(body.Out, v)
		}
	}
	s.Body = &body
	out := l.e.Out
	if out[0].Def != l.e {
		out = l.t.Apply(s, l.e.In...)
	} else if err := l.t.Extend(l.e, s); err != nil {
		return nil, err
	} else {
		out = l.e.Out
	}
	_, made := graph.ScanResults(s, out)
	saved := make([]*graph.Value, len(at))
	for k, j := range at {
		saved[k] = made[j][0]
	}
	return saved, nil
}

// apply adds the new loop to the trace. It returns the cotangents of e's arguments.
func (l *loop) apply(body *graph.Program, consts, saved []*graph.Value) []*graph.Value {
	var start []*graph.Value
	for _, i := range l.carried {
		start = append(start, instantiate(l.t, l.ctCarry[i], l.e.Out[i]))
	}
	for _, i := range l.summed {
		start = append(start, zeros(l.t, l.consts[i].Type.Cotangent()))
	}
	op := graph.ScanOp{Length: l.s.Length, Consts: len(consts), Carry: len(start), Reverse: !l.s.Reverse, Keep: l.s.Keep, Body: body}
	args := slices.Concat(consts, start)
	n := 0
	over := func(vs []*graph.Value, table bool) {
		if table {
			op.InTables = append(op.InTables, n)
		}
		n++
		args = append(args, vs...)
	}
	for j, vs := range l.each {
		over(vs, slices.Contains(l.s.InTables, j))
	}
	for _, v := range saved {
		over([]*graph.Value{v}, false)
	}
	for k, j := range l.known {
		over(l.ct[k], slices.Contains(l.s.OutTables, j))
	}
	for k, j := range l.sliced {
		if slices.Contains(l.s.InTables, j) {
			op.OutTables = append(op.OutTables, k)
		}
	}
	last, made := graph.ScanResults(op, l.t.Apply(op, args...))
	grads := make([]*graph.Value, len(l.e.In))
	ctConsts, ctCarry, ctEach := graph.ScanArgs(l.s, grads)
	for k, i := range l.carried {
		if slices.Contains(l.reached, i) {
			ctCarry[i] = last[k]
		}
	}
	for k, i := range l.summed {
		ctConsts[i] = last[len(l.carried)+k]
	}
	for k, j := range l.sliced {
		copy(ctEach[j], made[k])
	}
	return grads
}

// replay adds equations to the trace. env maps their arguments to values of the trace,
// and receives their results.
func replay(t *graph.Tracer, eqns []*graph.Eqn, env map[*graph.Value]*graph.Value) {
	for _, e := range eqns {
		in := values(env, e.In)
		t.At(e.Pos, func() {
			for i, v := range t.Apply(e.Prim, in...) {
				v.Name = e.Out[i].Name
				env[e.Out[i]] = v
			}
		})
	}
}

func values(env map[*graph.Value]*graph.Value, vs []*graph.Value) []*graph.Value {
	out := make([]*graph.Value, len(vs))
	for i, v := range vs {
		out[i] = env[v]
	}
	return out
}
