package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// InBlocks returns fn of the tokens routed by r, computing one block of the batch after another.
// A rank then receives at most `rows` rows at a time. These, and their rows in expert order,
// determine the layer's memory, regardless of the number of tokens.
//
// args are arrays with the leading dimensions of the choices, such as tokens [..,H] and weights
// [..,K]. fn gets the routing of a block and the block's tokens of every array, [n,H] and [n,K],
// and returns an array [n,columns]. Other values used by fn, such as weights of experts, are the
// same for all blocks. The result is [..,columns]. If fn treats each token independently, as
// experts do, the result has the same bits as fn of all tokens at once.
//
// With b blocks, a block has every b-th token, so that tokens split over ranks stay on their
// ranks. Its tokens must divide evenly among these ranks. The gradient recomputes each block, keeping none
// of its intermediate values. Gradients of values shared by all blocks are added block by block.
// Drops and traps are decided by r and do not depend on the blocks.
func InBlocks(rows int, r Prepared, args []*graph.Value, fn func(r Prepared, args []*graph.Value) *graph.Value) *graph.Value {
	graph.Helper()
	if rows < 1 {
		graph.Fail("in_blocks: blocks of %d rows, want at least 1", rows)
	}
	if r.Op.Receive > 0 && r.Op.Copies > 0 {
		graph.Fail("in_blocks: receive=%d is applied to all blocks together by Copies; call it before", r.Op.Receive)
	}
	flat := make([]*graph.Value, len(args))
	for i, x := range args {
		flat[i] = r.batch(x)
	}
	tokens := r.Value.Dim(0)
	blocks := 1
	for tokens/blocks > rows || tokens%blocks != 0 {
		blocks++
	}
	n := tokens / blocks
	if 2*n < min(rows, tokens) {
		graph.Fail("in_blocks: %d tokens in blocks of at most %d rows; want a number of rows of which %d is a multiple, such as %d or %d", tokens, rows, tokens, n, tokens/largestDivisor(tokens, blocks))
	}
	block := func(r Prepared, args []*graph.Value) *graph.Value {
		graph.Helper()
		y := fn(r, args)
		if y.Rank() != 2 || y.Dim(0) != n {
			graph.Fail("in_blocks: the result of a block of %d tokens is %s, want [%d, columns]", n, y.Type, n)
		}
		return y
	}
	if blocks == 1 {
		one := r
		one.chosen = flatten(r.chosen)
		return unflatten(block(one, flat), r.chosen)
	}
	y := blockLoop(r, blocks, flat, block)
	return unflatten(Reshape(y, tokens, y.Dim(-1)), r.chosen)
}

// largestDivisor returns the largest divisor of n below m.
func largestDivisor(n, m int) int {
	for m--; n%m != 0; m-- {
	}
	return m
}

// blockLoop returns [n,blocks,columns]: the results of fn for blocks of n tokens.
func blockLoop(r Prepared, blocks int, args []*graph.Value, fn func(r Prepared, args []*graph.Value) *graph.Value) *graph.Value {
	graph.Helper()
	tokens, k := r.Value.Dim(0), r.Value.Dim(1)
	// Dropped pairs choose no expert in their block.
	kept := Reshape(Slice(r.Value, []int{0, 0, 0}, []int{tokens, k, 1}), tokens, k)
	each := []*graph.Value{byBlock(kept, blocks)}
	for _, x := range args {
		each = append(each, byBlock(x, blocks))
	}
	op := r.Op
	op.Trap, op.Distinct = false, distinct(r.Value)
	_, out := graph.Scan(graph.ScanParams{}, nil, each, func(_, each []*graph.Value) (c, y []*graph.Value) {
		graph.Helper()
		return nil, []*graph.Value{fn(Prepare(op, each[0]), each[1:])}
	})
	return swapFirst(out[0])
}

// byBlock returns [blocks,n,..] of the tokens x [n·blocks,..]; block b has the tokens b,
// b+blocks and so on.
func byBlock(x *graph.Value, blocks int) *graph.Value {
	graph.Helper()
	return swapFirst(Reshape(x, slices.Concat([]int{x.Dim(0) / blocks, blocks}, x.Type.Shape[1:])...))
}

// swapFirst exchanges the first two dimensions.
func swapFirst(x *graph.Value) *graph.Value {
	graph.Helper()
	order := make([]int, x.Rank())
	for i := range order {
		order[i] = i
	}
	order[0], order[1] = 1, 0
	return Transpose(x, order...)
}
