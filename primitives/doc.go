// Package primitives holds the operations of programs. Model code calls builders, such as
// [MatMul] and [Route], inside [graph.Trace]. Builders record equations and compute nothing. A
// mistake in their arguments stops the trace with an error at the user's line.
//
// The name in the text form is the builder's in snake case (MatMul is a case of dot_general). Names
// and meanings are those of jax.lax where it has the operation. docs/reference.md lists all
// operations with formulas, derivatives and placements. docs/extending.md shows how to write one.
//
// # From dispatch to the wire and back
//
// Rows in expert order are an array and an index. Row i is row from(i) of the array, and the weight
// number choice(i) of that row belongs to it; -1 marks padding. Products of experts read rows through the
// index, and so do sums of rows and multiplications by weights. For any other reader, ep_place copies the
// rows. The layer and the mesh decide which array that is:
//
//	rows                    array          index from               instructions before
//	stay on their rank      tokens         ep_order                 ep_send_order, ep_recv_order
//	travel                  packed rows    ep_journey               ep_pack, all_to_all
//	 .. with their choices  packed rows    ep_from_segments         ep_pack_inline, all_to_all, ep_arrived
//	 .. through machines    packed rows    ep_passage               ep_pack, all_to_all, ep_pass, all_to_all
//
// Rows stay if one rank has all experts, or if every rank with experts has the tokens. Rows travel with their
// choices if the batch is so small that gathering the choices first would take longer. They travel through
// machines if the mesh names machines along the experts' axis.
//
// Combine adds the rows of a token in the order of its choices, also through an index: the row of every pair.
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
// (ep_keep), and Receive removes tokens (ep_receive). Copies renames experts before all of this
// (ep_copies). Wire is the type of packed values. InBlocks runs all of it in a loop over parts of the batch.
//
// On the host, rowMove moves rows for all of these instructions, and rowSum adds them. Both locate values and weights by
// a first byte, a stride and a size. ep_move of package metal/kernels is rowMove on Metal.
package primitives
