// Package ring joins the TCP ring of MLX. The ranks of a ring may be Go programs, MLX's
// own programs in Python, C++ or Swift, or both. The bytes on the wire are exactly MLX's
// (mlx/distributed/ring/ring.cpp). So this package has MLX's operations: all_sum,
// all_max, all_min and all_gather of all ranks, send and recv between neighbours, and a
// barrier, which is an all_sum of one f32. It refuses other operations with
// jaccl.ErrUnsupported. Begin with Connect or Join.
//
// If all ranks are Go programs there is no reason to use this package: package tcp has
// all operations, compares the calls and attributes failures to ranks.
//
// # Missing in the protocol
//
// The protocol sends only elements: no heads, no lengths and no sequence numbers. Ranks
// do not notice that they call different operations, or operations of different lengths:
// they wait until the deadline for bytes that never come, or take the bytes of one
// operation for another's. A rank knows only its two neighbours. When a connection ends,
// the error names that neighbour, although the neighbour may have left because of another
// rank. There is no watch (package watch) to find the cause: MLX's ranks have none, and
// ranks that are not neighbours have no connection.
//
// # Numbers
//
// A sum is formed along the ring: segment s of n begins at a rank depending on s and goes
// from neighbour to neighbour, each adding its own elements. Sums of f16 and bf16 are
// rounded at every rank. The protocol demands this order; other transports add in the
// order of ranks and round once. All ranks hold the same bits, because each segment is
// summed once and then forwarded.
//
// If a sum is a NaN, its bits may differ between ranks. In all_max and all_min a Go rank
// returns a NaN if any operand is one. A rank of MLX drops a NaN that it receives and
// keeps one of its own.
package ring
