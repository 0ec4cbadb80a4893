// Package ring joins the TCP ring of MLX: its ranks are Go programs, MLX's own in
// Python, C++ or Swift, or both. What goes over the wire is MLX's, byte for byte
// (mlx/distributed/ring/ring.cpp), so this package has the operations that MLX
// has and refuses the others with jaccl.ErrUnsupported: all_sum, all_max,
// all_min and all_gather of all ranks, send and recv between neighbours, and a
// barrier, which is an all_sum of one f32.
//
// Between ranks that are all Go there is no reason to use it: package tcp has all
// operations, compares the calls and knows whose fault a failure was.
//
// # What the protocol has not
//
// There are no heads, no lengths and no numbers, only elements. Ranks that call
// different operations, or with other lengths, are not told apart: they wait for
// bytes that never come, until the deadline, or take one's bytes for another's.
// A rank knows its two neighbours; when a connection ends it names that
// neighbour, which may have left because of another rank. There is no watch that would
// know better (package watch): MLX's ranks have none, and there is no connection to
// those that are no neighbours.
//
// # Numbers
//
// A sum is formed along the ring: segment s of n begins at a rank that depends
// on s and goes from neighbour to neighbour, each of which adds its own
// elements. Sums of f16 and bf16 are rounded at every rank. The protocol demands
// this order; other transports add in the order of ranks and round once. All ranks
// hold the same bits, since each segment is summed once and then passed on.
//
// The bits of a NaN that a sum makes are each rank's own. In all_max and all_min a
// NaN wins at a Go rank; MLX's ranks drop a NaN that comes to them and keep their
// own.
package ring
