package primitives

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/exec"
)

// Rows that are moved within their memory are those of a copy, whatever the moves and the
// number of threads.
func TestPermuteRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{0, 1, 2, 3, 7, 40, 300} {
		for _, size := range []int{4, 130, 4096} {
			for try := range 12 {
				mem := make([]byte, rows*size)
				for i := range mem {
					mem[i] = byte(r.Uint32())
				}
				var from []int32
				for _, i := range r.Perm(rows)[:rows-r.IntN(rows/2+1)] {
					from = append(from, int32(i))
				}
				switch try {
				case 0: // as they are
					slices.Sort(from)
				case 1: // one cycle, or a chain
					for j := range from {
						from[j] = int32((j + 1) % rows)
					}
				case 2: // rows of zones with gaps
					from = from[:len(from)/2]
					for j := range from {
						from[j] = int32(2 * j)
					}
				}
				want := slices.Clone(mem)
				for j, i := range from {
					copy(want[j*size:(j+1)*size], mem[int(i)*size:])
				}
				permuteRows(&exec.Args{Threads: 1 + try%4}, mem, from, size)
				if n := len(from) * size; !slices.Equal(mem[:n], want[:n]) {
					t.Fatal(fmt.Sprintf("%d rows of %d bytes from %v: other bytes than in a copy", rows, size, from))
				}
			}
		}
	}
}
