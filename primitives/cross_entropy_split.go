package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// CrossEntropyInBlocks is CrossEntropy of f32 or f64 logits whose vocabulary is calculated in blocks of equal size, so that the ranks
// of a mesh axis may each have some of the blocks: Place or ShardingConstraint splits the last dimension of the logits over the
// axis, and what ranks exchange of each token is two numbers for each block, and one for the label. The logits of a token are
// never together, nor are their cotangents. blocks divides the vocabulary, and the number of ranks divides blocks. The result has
// the same bits on all such meshes; other blocks, and CrossEntropy, sum in another order. Labels are those of CrossEntropy.
func CrossEntropyInBlocks(logits, labels *graph.Value, blocks int) *graph.Value {
	graph.Helper()
	n := logits.Rank() - 1
	if n < 0 || blocks < 1 || logits.Dim(-1)%blocks != 0 {
		graph.Fail("cross entropy of logits %s in %d blocks, want blocks of equal size", logits.Type, blocks)
	}
	if d := logits.Type.DType; d != graph.F32 && d != graph.F64 {
		graph.Fail("cross entropy in blocks of logits %s, want f32 or f64", logits.Type)
	}
	d, vocab := logits.Type.DType, logits.Dim(-1)
	lead := logits.Type.Shape[:n]
	x := Reshape(logits, slices.Concat(lead, []int{blocks, vocab / blocks})...)
	dims := make([]int, n+1)
	for i := range dims {
		dims[i] = i
	}
	wide := func(v *graph.Value, like *graph.Value) *graph.Value {
		return BroadcastInDim(v, like.Type.Shape, dims[:v.Rank()]...)
	}
	// Each block has its largest logit and a sum of exponentials relative to it.
	most := StopGradient(ReduceMax(x, n+1))
	sums := ReduceSum(Exp(Sub(x, wide(most, x))), n+1)
	top := StopGradient(ReduceMax(most, n))
	total := ReduceSum(Mul(sums, Exp(Sub(most, wide(top, most)))), n)
	// One number of each token is not 0.
	checked := AddScalar(Gather(Iota(logits.Tracer(), graph.I32, 0, vocab+1), Add(labels, FullLike(labels, 1)), 0), -1)
	ids := Reshape(Iota(logits.Tracer(), graph.I32, 0, vocab), blocks, vocab/blocks)
	all := BroadcastInDim(ids, x.Type.Shape, n, n+1)
	own := ReduceSum(Where(Eq(all, wide(checked, all)), x, ZerosLike(x)), n, n+1)
	loss := Sub(Add(Log(total), top), own)
	return Mul(loss, ConvertElementType(Ge(labels, ZerosLike(labels)), d))
}
