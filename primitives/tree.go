package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/sharding"
)

// Sums in a tree. A primitive with the parameter tree=n, a power of two, cuts the dimension
// that it sums over into n equal blocks, forms the sum of each block, and adds these in pairs:
// block 0 to block 1, 2 to 3, and so on, and then the sums of two blocks likewise, until one
// sum is left. A rank forms those parts of that tree of which it has all blocks, and ranks form
// the rest together (see treeSum). So the bits do not depend on who has which blocks.

// treeOf returns an error unless a dimension of size n can be summed in a tree of that many
// blocks, into a result of type t.
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

// treeDepth returns how many sums of a tree of that many blocks are held at a time, at most.
func treeDepth(blocks int) int {
	n := 1
	for ; blocks > 1; blocks /= 2 {
		n++
	}
	return n
}

// onlySplit returns the one of the dimensions that is split, or an error.
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

// firstInBlocks returns an error unless, of the dimensions that are summed over of the first
// argument, only dimension 0 is split, and blocks divide it.
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

// inTree returns a kernel that runs k, which sums over dimension 0 of its first `cut`
// arguments, on each of some blocks of these, and adds the results in pairs. Results are f32 or
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
				sums.at = append(sums.at, room(a, y.Type))
			}
		}
		// level returns the sums at a depth of the stack, whose first are the results.
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

// block returns one of a number of equal blocks of dimension 0 of x.
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
		exec.Share(a, x.Type.Len(), 1<<17, addedTo[float64]{data[float64](x), data[float64](y)})
		return
	}
	exec.Share(a, x.Type.Len(), 1<<17, addedTo[float32]{data[float32](x), data[float32](y)})
}

type addedTo[T float] struct{ x, y []T }

func (w *addedTo[T]) Piece(lo, hi int) { vector.Add(w.x[lo:hi], w.x[lo:hi], w.y[lo:hi]) }
