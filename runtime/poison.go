package runtime

import (
	"encoding/binary"

	"github.com/gomoe/gomoe/lowering"
)

// poisoned is a NaN in every float type when repeated, and in the integer types
// a number that is neither an index nor the -1 that marks none.
const poisoned uint16 = 0x7fff

// poison fills the results of an instruction, but for memory that they share
// with its arguments, which it must still read.
func (r *rank) poison(in *lowering.Instr) {
	read := map[int]bool{}
	for _, b := range in.In {
		read[r.plan.Root(b)] = true
	}
	var pattern [2]byte
	binary.NativeEndian.PutUint16(pattern[:], poisoned)
	for _, b := range in.Out {
		if read[r.plan.Root(b)] || r.plan.Bufs[b].Storage == lowering.Kept { // which may be there already
			continue
		}
		mem := r.bufs[b].Bytes()
		for j := range mem {
			mem[j] = pattern[j%2]
		}
	}
}
