package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// What kernels have to do with dry runs, which count the memory that kernels take; see
// exec.Dry. Kernels that are safe in a dry run read elements only in pieces of Work, and
// pieces of a Taker take their arguments by kernel.From.

// floatKernel emits a kernel that widens what is narrower than f32; see inFloat.
func floatKernel(e *lowering.Emitter, op ops.Op, out, in []lowering.Buf, f32, f64 exec.Kernel) error {
	return e.Emit(lowering.KernelSpec{Op: op, Out: out, In: in, Dry: widening(), Kernel: inFloat(f32, f64)})
}

// widening is the dry run of inFloat for kernels that take little memory themselves.
func widening() exec.Kernel {
	nothing := func(*exec.Args) error { return nil }
	return inFloat(nothing, nothing)
}

// counted returns the dry run of k that takes counts, the rows of each expert, as its last
// argument.
func counted(counts []int32, k exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		last := &a.In[len(a.In)-1]
		*last = array.New(last.Type)
		copy(data[int32](*last), counts)
		return k(a)
	}
}

// likelyCounts returns a guess of how many rows each expert on a rank has. The rows have
// these global and local types, and each rank has `experts` experts. The guess is that all
// ranks have equally many rows, which half of their experts share: how many rows an expert
// has decides whether a product copies its matrix.
func likelyCounts(global, local graph.Type, experts, ranks int) []int32 {
	left := min((global.Shape[0]+ranks-1)/ranks, local.Shape[0])
	each := 2 * ((left + experts - 1) / max(experts, 1))
	counts := make([]int32, experts)
	for e := range counts {
		counts[e] = int32(min(each, left))
		left -= int(counts[e])
	}
	return counts
}

// likelyRows is likelyCounts for buffers of rows and of weights.
func likelyRows(p *lowering.Peephole, rows, weights int) []int32 {
	b := p.Bufs[rows]
	return likelyCounts(b.Global, b.Type, p.Bufs[weights].Type.Shape[0], p.Mesh.Ranks())
}

// oneExpert returns counts by which one expert has all rows, of type x, and the other
// experts of the weights w none.
func oneExpert(x, w graph.Type) []int32 {
	counts := make([]int32, w.Shape[0])
	if len(counts) > 0 {
		counts[0] = int32(x.Shape[0])
	}
	return counts
}
