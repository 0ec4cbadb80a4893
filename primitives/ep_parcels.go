package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
)

// parcelsOf returns the parts of buf that go to, or come from, each member. Member i has
// rows[i] rows, behind those of member i-1.
func parcelsOf(a *exec.Args, buf array.Array, rows []int32, rowBytes int) [][]byte {
	out := exec.NewDirty[parcels](a)
	out.parts = out.parts[:0]
	mem := buf.Bytes()
	for _, n := range rows {
		size := int(n) * rowBytes
		out.parts, mem = append(out.parts, mem[:size:size]), mem[size:]
	}
	return out.parts
}

type parcels struct{ parts [][]byte }
