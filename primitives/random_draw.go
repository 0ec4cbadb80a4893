package primitives

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// A random element depends on the key and on its flat index in the whole value,
// and on nothing else. So a rank makes its part of the value without the rest,
// and the numbers do not depend on the mesh.

// isKey returns an error unless t is the type of a key.
func isKey(t graph.Type) error {
	if t.DType != graph.U32 || len(t.Shape) != 1 || t.Shape[0] != 2 {
		return fmt.Errorf("key %s, want u32[2]; make one with random_seed, or take one row of random_split", t)
	}
	return nil
}

// inferDraw returns the type of a primitive that draws a value of type out from a
// key. ok reports whether the primitive can draw an element type.
func inferDraw(in []graph.Type, out graph.Type, ok func(graph.DType) bool, want string) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	switch {
	case out.DType == graph.NoDType:
		return nil, errors.New("dtype is missing; write dtype=" + want[:3])
	case !ok(out.DType):
		return nil, fmt.Errorf("dtype %s, want %s", out.DType, want)
	case !out.Fits():
		return nil, fmt.Errorf("shape %v, want sizes of at least 0 whose bytes fit in 63 bits", out.Shape)
	}
	return []graph.Type{out}, isKey(in[0])
}

// shardDraw places key and result whole. Where the result is used in another
// placement, it is drawn in that placement.
func shardDraw() (sharding.Decision, error) {
	return sharding.Decision{In: []sharding.Spec{{}}, Out: []sharding.Spec{{}}}, nil
}

// shardDrawAs allows every placement except ragged rows.
func shardDrawAs(c *sharding.Context, out sharding.Spec) (sharding.Decision, error) {
	if out.Ragged != nil {
		return sharding.Decision{}, fmt.Errorf("%s is wanted in expert order, where a row's index among all rows is known only to the run; draw per token before ep_dispatch", c.Eqn.Prim.Name())
	}
	return sharding.Decision{In: []sharding.Spec{{}}, Out: []sharding.Spec{out}}, nil
}

// lowerDraw emits the kernel that draws the elements of out from the key in[0].
// fill writes elements offset, offset+1, ... of the whole value to dst.
func lowerDraw[E array.Elem](e *lowering.Emitter, op ops.Op, out, in []lowering.Buf, fill func(dst []E, key [2]uint32, offset uint64)) error {
	spec, global := out[0].Spec, e.Eqn.Out[0].Type.Shape
	return e.Emit(lowering.KernelSpec{Op: op, Out: out, In: in, Kernel: func(a *exec.Args) error {
		k, dst := data[uint32](a.In[0]), data[E](a.Out[0])
		r := runsOf(a, a.Out[0].Type.Shape, global, spec)
		a.Parallel(len(dst), 2*dear, func(lo, hi int) {
			for lo < hi {
				n := min(hi-lo, r.size-lo%r.size)
				fill(dst[lo:lo+n], [2]uint32{k[0], k[1]}, r.global(lo))
				lo += n
			}
		})
		return nil
	}})
}

// runs says where a rank's part of a value lies in the whole: as runs of
// elements that follow each other in both.
type runs struct {
	size  int    // elements of a run
	first uint64 // flat index, in the whole, of the part's first element
	// Of the dimensions before the runs: the part's sizes, and how many elements
	// of the whole lie behind an index.
	shape  []int
	stride []uint64
}

// runsOf returns the runs of a's rank; shape is the part's and global the
// whole's, which spec splits.
func runsOf(a *exec.Args, shape, global []int, spec sharding.Spec) runs {
	r := runs{size: 1}
	stride := uint64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		if stride == uint64(r.size) { // nothing behind d is split
			r.size *= shape[d]
		} else {
			r.shape = append(r.shape, shape[d])
			r.stride = append(r.stride, stride)
		}
		start, _ := a.Part(spec.At(d), global[d])
		r.first += uint64(start) * stride
		stride *= uint64(global[d])
	}
	slices.Reverse(r.shape)
	slices.Reverse(r.stride)
	return r
}

// global returns the flat index, in the whole, of element i of the part.
func (r runs) global(i int) uint64 {
	at := r.first + uint64(i%r.size)
	i /= r.size
	for d := len(r.shape) - 1; d >= 0; d-- {
		at += uint64(i%r.shape[d]) * r.stride[d]
		i /= r.shape[d]
	}
	return at
}

const drawNotes = "The bits that JAX draws from the same key with jax_threefry_partitionable, its default. " +
	"An element depends on the key and its index in the whole value: it is the same on every mesh, and each rank makes its own part."
