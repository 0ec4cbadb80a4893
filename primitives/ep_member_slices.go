package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
)

// memberSlicesOf cuts buf into consecutive slices, one per member, for an all_to_all.
// Member i has rows[i] rows.
func memberSlicesOf(a *exec.Args, buf array.Array, rows []int32, rowBytes int) [][]byte {
	out := exec.NewDirty[memberSlices](a)
	out.parts = out.parts[:0]
	mem := buf.Bytes()
	for _, n := range rows {
		size := int(n) * rowBytes
		out.parts, mem = append(out.parts, mem[:size:size]), mem[size:]
	}
	return out.parts
}

type memberSlices struct{ parts [][]byte }
