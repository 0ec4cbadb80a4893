package lowering

import (
	"context"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// Reshard returns a buffer with the value of from, of global type t, in placement to. It
// emits the necessary instructions, in this order: reduce_scatter or all_sum for pending
// sums, all_to_all for axes moving from one dimension to another, all_gather for axes
// that no longer split a dimension, a local copy of the rank's part for axes that now
// split one, and zeros on all ranks but the first for sums that are to be pending.
func (e *Emitter) Reshard(t graph.Type, from Buf, to sharding.Spec) (Buf, error) {
	to, err := to.Check(e.Mesh, t)
	if err != nil {
		return Buf{}, err
	}
	if from.Spec.Equal(to) {
		return from, nil
	}
	if err := reshapeable(from.Spec, to, t); err != nil {
		return Buf{}, err
	}
	b := from
	if axes := without(b.Spec.Pending, to.Pending); len(axes) > 0 {
		b = e.addUp(t, b, to, axes)
	}
	if d, g := swapDims(b.Spec, to, t.Rank()); d >= 0 {
		b = e.swap(t, b, d, g, b.Spec.At(d)[len(to.At(d)):])
	}
	for d := range t.Shape {
		if keep := common(b.Spec.At(d), to.At(d)); len(keep) < len(b.Spec.At(d)) {
			b = e.gather(t, b, d, keep)
		}
	}
	if !b.Spec.Resolved().Equal(to.Resolved()) {
		b = e.slice(t, b, to)
	}
	if axes := without(to.Pending, b.Spec.Pending); len(axes) > 0 {
		b = e.leavePending(t, b, to, axes)
	}
	return b, nil
}

// addUp adds up sums pending along axes, and leaves each rank its part if `to` splits a
// dimension by these axes. In between, the elements may have a smaller type.
func (e *Emitter) addUp(t graph.Type, b Buf, to sharding.Spec, axes []string) Buf {
	as := t
	if e.narrows(t) {
		as.DType = e.sums
		narrow := e.Placed(as, b.Spec)
		e.convert(ops.NarrowSummand, narrow, b)
		b = narrow
	}
	if d := scatterDim(b.Spec, to, axes, t.Rank()); d >= 0 {
		b = e.reduceScatter(as, b, d, axes)
	} else {
		b = e.allSum(as, b, axes)
	}
	if e.narrows(t) {
		wide := e.Placed(t, b.Spec)
		e.convert(ops.WidenSum, wide, b)
		b = wide
	}
	return b
}

// without returns the axes in a and not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return slices.Contains(b, x) })
}

// leavePending returns in as a sum that is also pending along axes: the first rank of
// these axes holds the value, and the others hold zeros.
func (e *Emitter) leavePending(t graph.Type, in Buf, to sharding.Spec, axes []string) Buf {
	out := e.Placed(t, to)
	e.emit(Instr{Op: ops.PendingPart, Zones: -1, InPlace: true, Host: Host{Kernel: func(a *exec.Args) error {
		if a.Index(axes) > 0 {
			clear(a.Out[0].Bytes())
			return nil
		}
		return copyBytes(a)
	}}}, []Buf{out}, []Buf{in})
	return out
}

// reshapeable returns an error if no exchange can move from to the placement to.
func reshapeable(from, to sharding.Spec, t graph.Type) error {
	bare := func(s sharding.Spec) sharding.Spec { s.Dims = nil; s.Pending = nil; return s }
	if !bare(from).Equal(bare(to)) {
		return sharding.Free(from, to, t)
	}
	return nil
}

func common(a, b []string) []string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// scatterDim returns the dimension that `to` splits further by exactly the axes of the
// sums, -1 if there is none. The placement of other dimensions may still differ.
func scatterDim(from, to sharding.Spec, axes []string, rank int) int {
	for d := range rank {
		f, w := from.At(d), to.At(d)
		if len(w) > len(f) && slices.Equal(f, w[:len(f)]) && slices.Equal(axes, w[len(f):]) {
			return d
		}
	}
	return -1
}

// swapDims returns the dimension that loses its minor axes and the dimension that
// gains them. Both are -1 if the two placements do not differ in this way.
func swapDims(from, to sharding.Spec, rank int) (lose, gain int) {
	lose, gain = -1, -1
	for d := range rank {
		f, w := from.At(d), to.At(d)
		switch {
		case slices.Equal(f, w):
		case len(f) > len(w) && slices.Equal(w, f[:len(w)]) && lose < 0:
			lose = d
		case len(w) > len(f) && slices.Equal(f, w[:len(f)]) && gain < 0:
			gain = d
		default:
			return -1, -1
		}
	}
	if lose < 0 || gain < 0 || !slices.Equal(from.At(lose)[len(to.At(lose)):], to.At(gain)[len(from.At(gain)):]) {
		return -1, -1
	}
	return lose, gain
}

func withDim(s sharding.Spec, d int, axes []string) sharding.Spec {
	s.Dims = slices.Clone(s.Dims)
	s.Dims[d] = axes
	return s
}

// summed returns the placement s after the sums along axes.
func summed(s sharding.Spec, axes []string) sharding.Spec {
	s.Pending = without(s.Pending, axes)
	return s
}

// allSum adds the parts of a sum that is pending along axes. It returns a buffer with the
// value of in, without pending sums along these axes.
func (e *Emitter) allSum(t graph.Type, in Buf, axes []string) Buf {
	out := e.Placed(t, summed(in.Spec, axes))
	// The sum may be computed in place (see Group.AllSum), so that the memory is read and
	// written once.
	e.EmitCollective(CollectiveSpec{Op: ops.AllSum, Axes: axes, DType: t.DType, Bytes: in.Type.Bytes(), Out: []Buf{out}, In: []Buf{in}, InPlace: true, Pairs: e.pairs,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			return g.AllSum(ctx, c, a.Out[0].Bytes(), a.In[0].Bytes())
		}})
	return out
}

func (e *Emitter) reduceScatter(t graph.Type, in Buf, d int, axes []string) Buf {
	parts := e.Mesh.Parts(axes)
	out := e.Placed(t, withDim(summed(in.Spec, axes), d, append(slices.Clone(in.Spec.At(d)), axes...)))
	if !e.Even(out, d) {
		e.scatterUneven(t, out, in, d, axes)
		return out
	}
	if d > 0 { // parts of an inner dimension are first made contiguous
		packed := e.Placed(t, in.Spec)
		e.move(ops.PartMajor, packed, in, blocks(d, parts, false))
		in = packed
	}
	e.reduceParts(axes, out, in)
	return out
}

// reduceParts emits the reduce_scatter of in, with consecutive parts.
func (e *Emitter) reduceParts(axes []string, out, in Buf) {
	e.EmitCollective(CollectiveSpec{Op: ops.ReduceScatter, Axes: axes, DType: in.Type.DType, Bytes: in.Type.Bytes(), Out: []Buf{out}, In: []Buf{in}, Pairs: e.pairs,
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			return g.ReduceScatter(ctx, c, a.Out[0].Bytes(), a.In[0].Bytes())
		}})
}

// AllGather emits an exchange after which out holds the buffers in of all ranks of
// the group, one after another in the order of the group.
func (e *Emitter) AllGather(axes []string, out, in Buf) {
	if e.Mesh.Parts(axes) == 1 {
		e.Alias(out, in)
		return
	}
	e.EmitCollective(CollectiveSpec{Op: ops.AllGather, Axes: axes, DType: in.Type.DType, Bytes: in.Type.Bytes(), Out: []Buf{out}, In: []Buf{in},
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			return g.AllGather(ctx, c, a.Out[0].Bytes(), a.In[0].Bytes())
		}})
}

func (e *Emitter) gather(t graph.Type, in Buf, d int, keep []string) Buf {
	axes := in.Spec.At(d)[len(keep):]
	parts := e.Mesh.Parts(axes)
	out := e.Placed(t, withDim(in.Spec, d, keep))
	if !e.Even(in, d) {
		e.gatherUneven(t, out, in, d, axes)
		return out
	}
	if outer(in.Type, d) == 1 {
		e.AllGather(axes, out, in)
		return out
	}
	got := e.Placed(t, out.Spec)
	e.AllGather(axes, got, in)
	e.move(ops.PartMinor, out, got, blocks(d, parts, true))
	return out
}

// move emits a kernel copying a whole value, including rows that are not in use.
func (e *Emitter) move(op ops.Op, out, in Buf, k exec.Kernel) {
	e.emit(Instr{Op: op, Zones: -1, Host: Host{Kernel: k}}, []Buf{out}, []Buf{in})
}

func outer(t graph.Type, d int) int {
	n := 1
	for _, s := range t.Shape[:d] {
		n *= s
	}
	return n
}

// swap moves axes from dimension `lose` to dimension `gain` by one all_to_all.
func (e *Emitter) swap(t graph.Type, in Buf, lose, gain int, axes []string) Buf {
	parts := e.Mesh.Parts(axes)
	kept := in.Spec.At(lose)[:len(in.Spec.At(lose))-len(axes)]
	spec := withDim(withDim(in.Spec, lose, kept), gain, append(slices.Clone(in.Spec.At(gain)), axes...))
	out := e.Placed(t, spec)
	if !e.Even(in, lose) || !e.Even(out, gain) {
		e.swapUneven(t, out, in, lose, gain, axes)
		return out
	}
	packed := e.Placed(t, in.Spec)
	e.move(ops.PartMajor, packed, in, blocks(gain, parts, false))
	got := e.Placed(t, spec)
	e.EmitCollective(CollectiveSpec{Op: ops.AllToAll, Axes: axes, DType: t.DType, Bytes: in.Type.Bytes(), Out: []Buf{got}, In: []Buf{packed},
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			return g.AllToAll(ctx, c, equalParts(a, a.Out[0], g.Size()), equalParts(a, a.In[0], g.Size()))
		}})
	e.move(ops.PartMinor, out, got, blocks(lose, parts, true))
	return out
}

func equalParts(a *exec.Args, x array.Array, n int) [][]byte {
	mem, p := x.Bytes(), exec.NewDirty[byteParts](a)
	p.parts = p.parts[:0]
	for i := range n {
		p.parts = append(p.parts, mem[len(mem)*i/n:len(mem)*(i+1)/n])
	}
	return p.parts
}

type byteParts struct{ parts [][]byte }

// slice copies the rank's part of the dimensions that `to` splits further.
func (e *Emitter) slice(t graph.Type, in Buf, to sharding.Spec) Buf {
	to.Pending = in.Spec.Pending
	out := e.Placed(t, to)
	e.move(ops.ShardPart, out, in, func(a *exec.Args) error {
		start := exec.Make[int](a, t.Rank())
		for d := range start {
			if len(to.At(d)) > len(in.Spec.At(d)) {
				unit := sharding.Unit(t, d)
				inner, _ := a.Part(to.At(d), t.Shape[d]/unit)
				outer, _ := a.Part(in.Spec.At(d), t.Shape[d]/unit)
				start[d] = (inner - outer) * unit
			}
		}
		copyBox(a.Out[0], a.In[0], start, exec.Make[int](a, len(start)))
		return nil
	})
	return out
}

// copyBox copies to dst the box of src that begins at start and has the shape of dst. idx
// has one element for each dimension of dst, all of them zero.
func copyBox(dst, src array.Array, start, idx []int) {
	// Blocks are copied as a whole: placements cut only between blocks.
	to, size := dst.Type.Units()
	from, _ := src.Type.Units()
	block, _ := src.Type.DType.Block()
	n := len(to)
	if dst.Type.Len() == 0 {
		return
	}
	if n == 0 {
		copy(dst.Bytes(), src.Bytes())
		return
	}
	run := to[n-1] * size
	for at := 0; ; at += run {
		off := 0
		for d := range n - 1 {
			off = (off + idx[d] + start[d]) * from[d+1]
		}
		off = (off + start[n-1]/block) * size
		copy(dst.Bytes()[at:at+run], src.Bytes()[off:off+run])
		d := n - 2
		for ; d >= 0; d-- {
			if idx[d]++; idx[d] < to[d] {
				break
			}
			idx[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// blocks returns a kernel that regroups the equal parts of dimension d: to part-major
// order, which makes each part contiguous for sending, or with back set from that order.
func blocks(d, parts int, back bool) exec.Kernel {
	return func(a *exec.Args) error {
		whole := a.In[0]
		if back {
			whole = a.Out[0]
		}
		o := outer(whole.Type, d)
		if len(whole.Bytes()) == 0 {
			return nil
		}
		run := len(whole.Bytes()) / o / parts
		src, dst := a.In[0].Bytes(), a.Out[0].Bytes()
		for i := range o {
			for p := range parts {
				w, m := (i*parts+p)*run, (p*o+i)*run
				if back {
					copy(dst[w:w+run], src[m:m+run])
				} else {
					copy(dst[m:m+run], src[w:w+run])
				}
			}
		}
		return nil
	}
}
