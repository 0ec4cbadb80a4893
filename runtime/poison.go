package runtime

import (
	"encoding/binary"

	"github.com/gomoe/gomoe/lowering"
)

// poisoned, repeated, is a NaN in every float type. In integer types it is neither a
// valid index nor -1, which means none.
const poisoned uint16 = 0x7fff

// poison fills the results of an instruction, except memory shared with its arguments.
func (r *rank) poison(in *lowering.Instr) {
	read := map[int]bool{}
	for _, b := range in.In {
		read[r.plan.Root(b)] = true
	}
	var pattern [2]byte
	binary.NativeEndian.PutUint16(pattern[:], poisoned)
	for _, b := range in.Out {
		if read[r.plan.Root(b)] || r.plan.Bufs[b].Storage == lowering.Kept { // a kept copy may be complete already
			continue
		}
		mem := r.bufs[b].Bytes()
		for j := range mem {
			mem[j] = pattern[j%2]
		}
	}
}
