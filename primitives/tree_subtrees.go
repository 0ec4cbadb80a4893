package primitives

import (
	"context"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// subtreeSums is a treeSum of ranks with several subtrees, or subtrees of different sizes.
type subtreeSums struct {
	treeSum
	parts     [][]subtree // of each rank
	groups    [][]int     // of each rank, as returned by Mesh.Group
	elements  []int       // of a sum, of each rank
	most, all int         // the largest numbers of subtrees of a rank and of a group
}

func (s treeSum) subtrees(m sharding.Mesh, parts [][]subtree) subtreeSums {
	x := subtreeSums{treeSum: s, parts: parts, most: 1}
	for rank := range parts {
		group := m.Group(rank, s.axes)
		sum := 0
		for _, r := range group {
			sum += len(parts[r])
		}
		x.groups = append(x.groups, group)
		x.most, x.all = max(x.most, len(parts[rank])), max(x.all, sum)
	}
	return x
}

func stackOf(n int, t graph.Type) graph.Type {
	return graph.Type{DType: t.DType, Shape: append([]int{n}, t.Shape...)}
}

// stacked returns the placement of a stack of values with placement s.
func stacked(s sharding.Spec) sharding.Spec {
	dims := [][]string{nil}
	for d := range s.Dims {
		dims = append(dims, s.Dims[d])
	}
	return sharding.Spec{Dims: dims}
}

// kernel returns the kernel setting the results, which are stacks, to the sums of the rank's
// subtrees.
func (x subtreeSums) kernel(kernel func(run blockRun) exec.Kernel) exec.Kernel {
	kernels := make([][]exec.Kernel, len(x.parts))
	for rank, parts := range x.parts {
		for _, p := range parts {
			kernels[rank] = append(kernels[rank], kernel(p.blockRun))
		}
	}
	return func(a *exec.Args) error {
		sub := exec.NewDirty[exec.Args](a)
		in, out := append(sub.In[:0], a.In...), sub.Out[:0]
		*sub = *a
		sub.In = in // not shared: the next kernel to take sub overwrites it
		for i, k := range kernels[a.Rank] {
			out = out[:0]
			for _, y := range a.Out {
				out = append(out, inStack(a, y, i))
			}
			sub.Out = out
			if err := k(sub); err != nil {
				return err
			}
		}
		return nil
	}
}

// inStack returns value i of a stack.
func inStack(a *exec.Args, x array.Array, i int) array.Array {
	t := graph.Type{DType: x.Type.DType, Shape: x.Type.Shape[1:]}
	if a.Dry() != nil {
		return array.Outline(t)
	}
	n := int(t.Bytes())
	return array.Over(t, x.Bytes()[i*n:(i+1)*n])
}

// smallSum is the size in bytes of a group's sums up to which each rank adds all of them.
const smallSum = 64 << 10

// segments is the number of segments of a sum. Each rank of a group adds one.
type segments int

func (n segments) of(elements, i int) (lo, hi int) {
	i %= int(n)
	return i * elements / int(n), (i + 1) * elements / int(n)
}

// exchange emits the instructions adding the sums of each group's ranks into out, of global type
// whole. A rank adds one segment, followed by an exchange of segments, or all of a small sum.
func (x subtreeSums) exchange(e *lowering.Emitter, whole graph.Type, out, sums lowering.Buf) {
	t := out.Type
	x.elements = nil
	n := e.Mesh.Parts(x.axes)
	for rank := range x.parts {
		_, part := out.Spec.Box(e.Mesh, rank, whole)
		x.elements = append(x.elements, part.Len())
	}
	cut, send := segments(n), sums
	if int64(x.all)*t.Bytes() <= smallSum {
		cut = 1
	} else {
		send = e.Placed(stackOf(x.most, whole), sums.Spec)
		x.emit(e, ops.SegmentsApart, send, sums, func(a *exec.Args) error {
			x.packSegments(a, cut)
			return nil
		})
	}
	each := (t.Len() + int(cut) - 1) / int(cut)
	got := e.Temp(graph.T(t.DType, x.all, each))
	x.emitExchange(e, got, send, func(a *exec.Args, dst, src *memberSlices) {
		x.memberSlices(a, cut, dst, src)
	})
	mine := out
	if cut > 1 {
		mine = e.Temp(graph.T(t.DType, each))
	}
	add := inFloat(addSubtrees[float32](x, cut), addSubtrees[float64](x, cut))
	x.emit(e, ops.SubtreesAdded, mine, got, add)
	if cut == 1 {
		return
	}
	x.emitExchange(e, out, mine, func(a *exec.Args, dst, src *memberSlices) {
		size, all := t.DType.Size(), x.elements[a.Rank]
		lo, hi := cut.of(all, a.Index(x.axes))
		for i := range n {
			from, to := cut.of(all, i)
			src.parts = append(src.parts, a.In[0].Bytes()[:(hi-lo)*size])
			dst.parts = append(dst.parts, a.Out[0].Bytes()[from*size:to*size])
		}
	})
}

// emit emits a kernel.
func (x subtreeSums) emit(e *lowering.Emitter, op ops.Op, out, in lowering.Buf, k exec.Kernel) {
	// Errors concern rows in expert order only, and sums are not.
	_ = e.Emit(lowering.KernelSpec{Op: op, Out: []lowering.Buf{out}, In: []lowering.Buf{in}, Kernel: k, Dry: k})
}

// emitExchange emits an all_to_all of the slices appended by fill to dst and src.
func (x subtreeSums) emitExchange(e *lowering.Emitter, out, in lowering.Buf, fill func(a *exec.Args, dst, src *memberSlices)) {
	e.EmitCollective(lowering.CollectiveSpec{Op: ops.AllToAll, Axes: x.axes, DType: in.Type.DType, Bytes: in.Type.Bytes(), Out: []lowering.Buf{out}, In: []lowering.Buf{in},
		Exchange: func(ctx context.Context, g collective.Group, c collective.Call, a *exec.Args) error {
			dst, src := exec.NewDirty[memberSlices](a), exec.NewDirty[memberSlices](a)
			dst.parts, src.parts = dst.parts[:0], src.parts[:0]
			fill(a, dst, src)
			return g.AllToAll(ctx, c, dst.parts, src.parts)
		}})
}

// packSegments packs the segments of the rank's sums by destination.
func (x subtreeSums) packSegments(a *exec.Args, cut segments) {
	if a.Dry() != nil {
		return
	}
	size := a.In[0].Type.DType.Size()
	mem, to := a.In[0].Bytes(), a.Out[0].Bytes()
	n := x.elements[a.Rank]
	for i := range int(cut) {
		lo, hi := cut.of(n, i)
		for k := range x.parts[a.Rank] {
			to = to[copy(to, mem[(k*n+lo)*size:(k*n+hi)*size]):]
		}
	}
}

// memberSlices appends the segments sent to each rank of the group, and received from it.
func (x subtreeSums) memberSlices(a *exec.Args, cut segments, dst, src *memberSlices) {
	size := a.In[0].Type.DType.Size()
	from, to := a.In[0].Bytes(), a.Out[0].Bytes()
	n := x.elements[a.Rank]
	first, end := cut.of(n, a.Index(x.axes))
	for i, r := range x.groups[a.Rank] {
		lo, hi := cut.of(n, i)
		sent, received := len(x.parts[a.Rank])*(hi-lo)*size, len(x.parts[r])*(end-first)*size
		src.parts, dst.parts = append(src.parts, from[:sent]), append(dst.parts, to[:received])
		if to = to[received:]; cut > 1 {
			from = from[sent:]
		}
	}
}

// addSubtrees returns the kernel adding the sums of a group's subtrees, given in argument 0 in the order of
// the ranks.
func addSubtrees[T float](x subtreeSums, cut segments) exec.Kernel {
	tables := make([][]summand, len(x.parts))
	for rank, group := range x.groups {
		tables[rank] = make([]summand, x.blocks)
		i := 0
		for _, r := range group {
			for _, p := range x.parts[r] {
				tables[rank][p.at] = summand{i, p.n}
				i++
			}
		}
	}
	return func(a *exec.Args) error {
		lo, hi := cut.of(x.elements[a.Rank], a.Index(x.axes))
		sums, sum := data[T](a.In[0]), data[T](a.Out[0])
		if a.Dry() == nil {
			clear(sum[hi-lo:])
		}
		exec.Share(a, hi-lo, subtreeGrain, subtreeAddition[T]{exec.Taking{}, a.Dry() != nil, tables[a.Rank], sums, sum, hi - lo,
			exec.RoomsOf[T](a, subtreeGrain*treeDepth(x.blocks))})
		return nil
	}
}

// summand is the index of a subtree's sum among a group's sums, and the subtree's number of blocks.
type summand struct{ i, blocks int }

// subtreeGrain is the number of elements summed at a time.
const subtreeGrain = 2048

type subtreeAddition[T float] struct {
	exec.Taking
	dry       bool
	from      []summand
	sums, sum []T
	n         int // elements of a sum
	rooms     *exec.Rooms[T]
}

func (w *subtreeAddition[T]) Piece(lo, hi int) {
	if w.dry {
		return
	}
	room := w.rooms.Take()
	for ; lo < hi; lo += subtreeGrain {
		end := min(lo+subtreeGrain, hi)
		dst := w.sum[lo:end]
		if sum := w.of(0, len(w.from), lo, dst, room); &sum[0] != &dst[0] {
			copy(dst, sum)
		}
	}
}

// of returns len(dst) elements, from element lo on, of the sum of blocks [at, at+n). The result is in dst
// or, if the blocks are one subtree, aliases the sums.
func (w *subtreeAddition[T]) of(at, n, lo int, dst, room []T) []T {
	if f := w.from[at]; f.blocks == n {
		return w.sums[f.i*w.n+lo:][:len(dst)]
	}
	x := w.of(at, n/2, lo, dst, room)
	y := w.of(at+n/2, n/2, lo, room[:len(dst)], room[subtreeGrain:])
	vector.Add(dst, x, y)
	return dst
}
