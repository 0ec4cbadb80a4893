// Package ep is the routing arithmetic of expert parallelism: it assigns each pair to its
// expert, its position and its row, and drops pairs beyond a capacity. It works on plain
// int32 slices, starts no goroutine and imports no other package of this module. The
// primitives call it, and the collectives move the rows accordingly.
//
// # Words
//
// A batch of T tokens makes K choices each. A pair is one choice, numbered t·K+k; its
// index, in 0 … E-1, names an expert, and -1 marks an unused choice. A token may choose
// an expert twice: both pairs count. The tokens are split over N ranks (sources) in
// contiguous blocks, so that rank order is token order. A table is an int32[N,E] array:
// the number of pairs of each source choosing each expert.
//
// The ranks form groups of R members that together hold the experts once: a Split assigns
// consecutive experts to each member. Pairs are exchanged within a group only.
//
// # Contract
//
// The position of a pair in its expert's queue is the number of pairs for that expert
// before it, in (t, k) order over all T tokens, on any number of ranks. A capacity C > 0
// drops the pairs at positions C and up. So routing, counts and drops do not depend on
// the mesh. A limit on the rows that a member accepts drops the pairs beyond it in the
// same order. Which pairs these are depends on the experts that a member owns, and so on
// the mesh.
//
// A member's rows are its experts' zones, in expert order. Within a zone rows are in (t,
// k) order, without gaps. A zone starts at a multiple of the alignment. Rows between a
// zone's end and the next zone's start, and rows past the last zone, belong to no pair;
// the code filling the rows must set these to zero.
//
// # One step of a rank
//
//	Count        local pairs per expert           then all-gather into the table
//	Before       pairs on lower ranks
//	Assign       routing int32[T/N,K,2], dropped
//	Kept         the table after drops
//	Group.SendCounts, Group.RecvCounts, SendOrder, Group.Zones, Group.RecvOrder
//
// These steps send one row per pair, as on the return path. To send a token's row only
// once to each member, ranks gather the choices of all sources instead:
//
//	Count, Keep           of each source, from the choices of all
//	Group.Receive         if members accept a limited number of rows
//	Group.RowsOut         the rows to send
//	Group.RowsIn, Slots   the rows that received rows fill
//
// If experts are replicated, CopyIndex distributes routing, choices and the table after
// drops over the replicas, which replace the experts in the following steps.
//
// Slices belong to the caller; the package keeps none of them. Only NewPlan, Measure and
// the functions making a Split or Copies allocate. Inconsistent lengths are a mistake in
// the calling code and make Go's bounds checks panic. Values supplied by users (indices,
// sizes, groups, replicas) are checked by Count, Layer.Check, Group.Validate and
// Copies.Index, which return errors.
//
// Begin with NewPlan, which does all of these steps for one rank. The package moves no
// rows and multiplies nothing.
package ep
