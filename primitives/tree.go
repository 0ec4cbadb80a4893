package primitives

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// Sums in a tree. A primitive with the parameter tree=n, a power of two, cuts the reduced
// dimension into n equal blocks, sums each block, and adds these sums in pairs: block 0 to
// block 1, 2 to 3, and so on, and then the sums of pairs likewise, until one sum is left. A
// rank sums the subtrees with all blocks on the rank, and the ranks exchange sums to complete
// the tree (see treeSum). The bits therefore do not depend on the placement of the blocks.

// treeOf returns an error unless a dimension of size n can be summed in a tree with the given
// number of blocks, into a result of type t.
func treeOf(tree, n int, t graph.Type) error {
	switch {
	case tree == 0:
		return nil
	case tree < 0 || tree&(tree-1) != 0:
		return fmt.Errorf("tree=%d, want a power of two, the number of blocks whose sums are added in pairs", tree)
	case n%tree != 0:
		return fmt.Errorf("tree=%d does not divide the dimension of size %d that is summed over; want blocks of one size", tree, n)
	case t.DType != graph.F32 && t.DType != graph.F64:
		return fmt.Errorf("tree=%d with a result of %s, want f32 or f64, whose sums are not rounded on the way", tree, t.DType)
	}
	return nil
}

// treeDepth returns the largest number of sums on the stack while summing a tree of blocks.
func treeDepth(blocks int) int {
	n := 1
	for ; blocks > 1; blocks /= 2 {
		n++
	}
	return n
}

// onlySplit returns the split dimension among dims, or an error unless there is exactly one.
func onlySplit(s sharding.Spec, dims []int) (int, error) {
	at := -1
	for _, d := range dims {
		if len(s.At(d)) == 0 {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("dimensions %d and %d are both split and summed over, and blocks are of one dimension; split the batch along one dimension only", at, d)
		}
		at = d
	}
	return at, nil
}

// firstInBlocks returns an error unless dimension 0 is the only split one among the reduced
// dimensions of the first argument, and blocks divide it.
func firstInBlocks(e *graph.Eqn, in sharding.Spec, dims []int, blocks int) error {
	d, err := onlySplit(in, dims)
	if err != nil {
		return err
	}
	if d > 0 {
		return fmt.Errorf("dimension %d is split and summed over, and blocks are of dimension 0; split the batch along its first dimension", d)
	}
	return divides(blocks, e.In[0].Type.Shape[0])
}

// divides returns an error if blocks do not divide the dimension.
func divides(blocks, n int) error {
	if n%blocks != 0 {
		return fmt.Errorf("a dimension of size %d is summed over and split, and %d blocks do not divide it; choose a batch that is a multiple of %d, or fewer blocks", n, blocks, blocks)
	}
	return nil
}

// inTree returns a kernel running k on each block of a run, and adding the results in pairs. k
// sums over dimension 0 of its first `cut` arguments, which have the blocks. Results are f32 or
// f64.
func inTree(k exec.Kernel, cut int, run blockRun) exec.Kernel {
	if run.n == 1 && run.of == 1 {
		return k
	}
	return func(a *exec.Args) error {
		sub := exec.NewDirty[exec.Args](a)
		in, out := sub.In[:0], sub.Out[:0]
		*sub = *a
		depth := treeDepth(run.n)
		sums := exec.NewDirty[treeSums](a)
		sums.at = sums.at[:0]
		for range depth - 1 {
			for _, y := range a.Out {
				sums.at = append(sums.at, scratchArray(a, y.Type))
			}
		}
		// level returns the sums at a depth of the stack. At depth 0 they are the results.
		level := func(d int) []array.Array {
			if d == 0 {
				return a.Out
			}
			return sums.at[(d-1)*len(a.Out) : d*len(a.Out)]
		}
		for b, d := 0, 0; b < run.n; b++ {
			in = in[:0]
			for i, x := range a.In {
				if i < cut {
					x = block(a, x, run.first+b, run.of)
				}
				in = append(in, x)
			}
			sub.In, sub.Out = in, append(out[:0], level(d)...)
			out = sub.Out
			if err := k(sub); err != nil {
				return err
			}
			if a.Dry() != nil {
				return nil
			}
			d++
			for odd := b; odd&1 == 1; odd >>= 1 {
				d--
				for i, y := range level(d - 1) {
					addTo(a, y, level(d)[i])
				}
			}
		}
		return nil
	}
}

type treeSums struct{ at []array.Array }

// block returns block i of equal blocks of dimension 0 of x.
func block(a *exec.Args, x array.Array, i, blocks int) array.Array {
	t := graph.Type{DType: x.Type.DType, Shape: exec.Make[int](a, x.Type.Rank())}
	copy(t.Shape, x.Type.Shape)
	t.Shape[0] /= blocks
	if a.Dry() != nil {
		return array.Outline(t)
	}
	n := len(x.Bytes()) / blocks
	return array.Over(t, x.Bytes()[i*n:(i+1)*n])
}

// addTo adds y to x.
func addTo(a *exec.Args, x, y array.Array) {
	if x.Type.DType == graph.F64 {
		exec.Share(a, x.Type.Len(), 1<<17, elementAddition[float64]{data[float64](x), data[float64](y)})
		return
	}
	exec.Share(a, x.Type.Len(), 1<<17, elementAddition[float32]{data[float32](x), data[float32](y)})
}

type elementAddition[T float] struct{ x, y []T }

func (w *elementAddition[T]) Piece(lo, hi int) { vector.Add(w.x[lo:hi], w.x[lo:hi], w.y[lo:hi]) }

// treeSum is a sum in a tree of blocks distributed over ranks. If each rank of a group has one
// subtree, all of the same size, the sum is left pending, and the ranks add their sums in pairs
// (see collective.Call.Pairs). Otherwise each rank sums its largest complete subtrees. Contiguous
// blocks form at most twice the logarithm of their number. The ranks then exchange these sums
// and add them in the order of the tree, so that the result is complete.
type treeSum struct {
	blocks int
	axes   []string // along which the ranks of a group differ
	// has returns the blocks of a rank, ascending. Ranks of a group have distinct blocks.
	has func(m sharding.Mesh, rank int) []int
}

// blockRun is n of a rank's `of` blocks, from block `first` on.
type blockRun struct{ first, n, of int }

// subtree is the run of all blocks of a subtree. Its first block in the tree is `at`.
type subtree struct {
	blockRun
	at int
}

// subtrees partitions ascending blocks into the largest complete subtrees.
func subtrees(blocks []int) []subtree {
	var list []subtree
	for i := 0; i < len(blocks); {
		n := 1
		for at := blocks[i]; at%(2*n) == 0 && i+2*n <= len(blocks) && blocks[i+2*n-1] == at+2*n-1; n *= 2 {
		}
		list = append(list, subtree{blockRun{i, n, len(blocks)}, blocks[i]})
		i += n
	}
	return list
}

// parts returns the subtrees of every rank.
func (s treeSum) parts(m sharding.Mesh) [][]subtree {
	all := make([][]subtree, m.Ranks())
	for rank := range all {
		all[rank] = subtrees(s.has(m, rank))
	}
	return all
}

// inPairs reports whether adding the ranks' sums in pairs yields the sum of the tree.
func (s treeSum) inPairs(m sharding.Mesh, parts [][]subtree) bool {
	for rank := range parts {
		group := m.Group(rank, m.Union(s.axes, nil)) // in the order in which pending sums are added
		for i, r := range group {
			if p := parts[r]; len(p) != 1 || p[0].at != i*p[0].n || p[0].n*len(group) != s.blocks {
				return false
			}
		}
	}
	return true
}

// place removes the axes of the group from the pending sums of dec, if the result is complete.
func (s treeSum) place(m sharding.Mesh, dec *sharding.Decision) {
	if s.blocks > 0 && len(s.axes) > 0 && !s.inPairs(m, s.parts(m)) {
		for i := range dec.Out {
			dec.Out[i].Pending = slices.DeleteFunc(slices.Clone(dec.Out[i].Pending), func(a string) bool { return sharding.Over(s.axes, a) })
		}
	}
}

// blocksOver returns a function from ranks to their blocks, for a dimension of n indices split over
// axes. It returns an error if a block is split between ranks.
func blocksOver(m sharding.Mesh, blocks, n int, axes []string) (func(m sharding.Mesh, rank int) []int, error) {
	each := n / blocks
	for _, at := range m.Cuts(axes, n) {
		if each > 0 && at%each != 0 {
			advice := fmt.Sprintf("split over at most %d ranks, and set Mesh.Blocks to %d", blocks, blocks)
			for _, a := range axes {
				if r := m.Ranges(a); r != nil && r.Len() == n {
					advice = fmt.Sprintf("the ranges of axis %s, for %d experts, cut a dimension of %d that is placed over %s; place it over %s", a, n, n, a, m.Evenly([]string{a})[0])
				}
			}
			return nil, fmt.Errorf("%d indices over %s of %q, a tree of %d blocks, of which a rank would have a part; %s", n, strings.Join(axes, "."), m, blocks, advice)
		}
	}
	return func(m sharding.Mesh, rank int) []int {
		start, size := m.Part(rank, axes, n)
		if each == 0 {
			start, size = m.Part(rank, axes, blocks)
			each = 1
		}
		return consecutive(start/each, size/each)
	}, nil
}

func consecutive(first, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i
	}
	return list
}

// over returns the sum over dimension d, split over axes, of an argument of type t.
func (s treeSum) over(m sharding.Mesh, t graph.Type, d int, axes []string) (treeSum, error) {
	s.axes = axes
	var err error
	s.has, err = blocksOver(m, s.blocks, t.Shape[d], axes)
	return s, err
}

// placeTree changes dec to the decision of a sum in a tree over dimension d of argument i. It returns an
// error if another reduced dimension is split.
func placeTree(c *sharding.Context, dec *sharding.Decision, blocks, i, d int) error {
	axes := dec.In[i].At(d)
	for _, a := range dec.Out[0].Pending {
		if !sharding.Over(axes, a) {
			return fmt.Errorf("the sum is pending over %s, too, which does not split dimension %d of argument %d, the one of the tree; bring that to one rank with sharding_constraint", a, d, i)
		}
	}
	s, err := treeSum{blocks: blocks}.over(c.Mesh, c.Type(i), d, axes)
	if err == nil {
		s.place(c.Mesh, dec)
	}
	return err
}

// emitTree emits the sum over dimension d of argument i in a tree. kernel returns the kernel
// summing a run of the rank's blocks.
func emitTree(e *lowering.Emitter, spec lowering.KernelSpec, blocks, i, d int, kernel func(run blockRun) exec.Kernel) error {
	s, err := treeSum{blocks: blocks}.over(e.Mesh, e.Eqn.In[i].Type, d, spec.In[i].Spec.At(d))
	if err != nil {
		return err
	}
	return s.emit(e, spec, kernel)
}

// emit emits the kernels of a sum, followed by the exchange of subtrees if needed. spec is
// complete except for the kernel.
func (s treeSum) emit(e *lowering.Emitter, spec lowering.KernelSpec, kernel func(run blockRun) exec.Kernel) error {
	parts := s.parts(e.Mesh)
	if s.inPairs(e.Mesh, parts) {
		n := parts[0][0].n
		spec.Kernel = kernel(blockRun{0, n, n})
		spec.Dry = spec.Kernel
		return e.Emit(spec)
	}
	x := s.subtrees(e.Mesh, parts)
	outs := spec.Out
	spec.Out = nil
	for i, out := range outs {
		spec.Out = append(spec.Out, e.Placed(stackOf(x.most, e.Eqn.Out[i].Type), stacked(out.Spec)))
	}
	spec.Kernel = x.kernel(kernel)
	spec.Dry = spec.Kernel
	if err := e.Emit(spec); err != nil {
		return err
	}
	for i, out := range outs {
		x.exchange(e, e.Eqn.Out[i].Type, out, spec.Out[i])
	}
	return nil
}
