// Package primitives holds the operations of programs. Model code calls builders, such as
// [MatMul] and [Route], inside [graph.Trace]. Builders record equations and compute nothing. A
// mistake in their arguments stops the trace with an error at the user's line.
//
// In the text form a primitive has the name of its builder in snake case (MatMul is a case of
// dot_general). Operations that jax.lax also has keep its names and semantics. docs/reference.md lists
// all operations with formulas, derivatives and placements. docs/extending.md explains writing one.
//
// # From dispatch to the wire and back
//
// Dispatch returns rows sorted by expert (expert order). They need not be copied: an array and two index
// buffers represent them. Row i in expert order is row from(i) of the array, weighted by that row's weight
// number choice(i); -1 marks padding. Grouped products, sums of rows and multiplications by weights gather
// rows through the index. For all other readers, ep_place copies the rows into expert order. The layer and
// the mesh determine the array:
//
//	rows                    array          index from               instructions before
//	stay on their rank      tokens         ep_order                 ep_send_order, ep_recv_order
//	travel                  packed rows    ep_journey               ep_pack, all_to_all
//	 .. with their choices  packed rows    ep_from_segments         ep_pack_inline, all_to_all, ep_arrived
//	 .. through machines    packed rows    ep_passage               ep_pack, all_to_all, ep_pass, all_to_all
//
// Rows stay on their rank if it has all experts, or if the tokens are replicated over the ranks holding
// experts. Otherwise they travel. In small batches they carry their choices, saving the all_gather of all
// choices before the exchange. If the mesh names machines along the experts' axis, rows are sent once to each
// machine and forwarded there.
//
// Combine adds the rows of each token in the order of its choices. It also gathers them through an index,
// holding the row of every pair:
//
//	rows                    array          index from               instructions before
//	stay on their rank      rows           ep_order
//	 .. tokens everywhere   pairs' rows    none                     ep_spread, all_sum
//	 .. and sums of ranks   rows           ep_order                 then all_sum of the ranks' sums
//	travel back             packed rows    ep_send_order            ep_pack_rows, all_to_all
//	travel as sums of ranks packed sums    ep_journey               ep_slots, ep_pack_sums, all_to_all
//	 .. through machines    packed sums    ep_passage               the same within, ep_sum_machine, all_to_all
//
// The layer's other options are fields of these instructions. Capacity removes pairs from the choices
// (ep_keep), and Receive removes the pairs of rows that a rank does not accept (ep_receive). Copies replaces
// experts by replicas before these steps (ep_copies). Wire is the element type of packed values. InBlocks
// runs all steps in a loop over blocks of the batch.
//
// On the host, rowMove copies rows for all of these instructions, and rowSum adds them. Both locate values
// and weights by offset, stride and size. On Metal, ep_move of package metal/kernels replaces rowMove.
package primitives
