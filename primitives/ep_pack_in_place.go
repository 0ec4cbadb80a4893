package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Packed rows without weights, and without a conversion, have the size of the rows in expert
// order. The plan may then pack them in place, so that no rank holds the rows twice.

// canAlias reports whether packed rows of the payload, of type wire, have the size of its rows.
func canAlias(payload []lowering.Buf, wire graph.DType) bool {
	return len(payload) == 1 && wire == payload[0].Type.DType
}

// aliasesRows reports whether the kernel's result aliases its first argument.
func aliasesRows(a *exec.Args) bool {
	rows, packed := a.In[0].Bytes(), a.Out[0].Bytes()
	return len(rows) > 0 && len(packed) > 0 && &rows[0] == &packed[0]
}

// permuteRows permutes the rows of mem, of size bytes each, in place: for every j, row j becomes
// row from[j]. The elements of from are distinct. Rows beyond len(from) are then undefined.
func permuteRows(a *exec.Args, mem []byte, from []int32, size int) {
	n := len(from)
	// The order of the copies reads every row before overwriting it: first chains, each beginning
	// at a row that is never read, then cycles, each saving its first row.
	order, read := exec.Make[int32](a, 2*n)[:0], exec.Make[bool](a, n)
	for _, i := range from {
		if int(i) < n {
			read[i] = true
		}
	}
	done := exec.Make[bool](a, n)
	for j := range from {
		for at := j; at < n && !read[j] && !done[at]; at = int(from[at]) {
			done[at], order = true, append(order, int32(at))
		}
	}
	for j := range from {
		if done[j] || int(from[j]) == j {
			continue
		}
		order = append(order, ^int32(j)) // saves row j
		for at := j; !done[at]; at = int(from[at]) {
			done[at], order = true, append(order, int32(at))
		}
	}
	if len(order) == 0 {
		return
	}
	// Threads share the columns, because rows must be copied in order.
	parts := 1
	if n >= movedGrain(size) {
		parts = max(1, min(a.Threads, size/512))
	}
	exec.Share(a, parts, 1, rowPermutation{mem, from, order, size, parts, exec.RoomsOf[byte](a, size)})
}

// rowPermutation is the work of permuting rows in place. order lists the destination rows of the
// copies; ^j saves row j for the copy reading it.
type rowPermutation struct {
	mem         []byte
	from, order []int32
	size, parts int
	rooms       *exec.Rooms[byte]
}

func (w *rowPermutation) Piece(lo, hi int) {
	lo, hi = lo*w.size/w.parts, hi*w.size/w.parts
	aside, held := w.rooms.Take(), -1
	part := func(j int) []byte { return w.mem[j*w.size:][lo:hi] }
	for _, x := range w.order {
		if x < 0 {
			held = int(^x)
			copy(aside, part(held))
			continue
		}
		j := int(x)
		if i := int(w.from[j]); i == held {
			copy(part(j), aside)
			held = -1
		} else {
			copy(part(j), part(i))
		}
	}
}

// sumInPlace is packSums in place. For each received row, it writes the sum of its rows in expert
// order over the first of these. It then moves the sums to the beginning of the memory.
func sumInPlace(a *exec.Args, arrived int, s rowSum[float32]) error {
	first := exec.Make[int32](a, arrived)
	for j := range first {
		first[j] = -1
		for _, i := range s.index[j*s.k : (j+1)*s.k] {
			if i >= 0 {
				first[j] = i
				break
			}
		}
		if first[j] < 0 {
			return fmt.Errorf("row %d has arrived, and belongs to no pair", j)
		}
	}
	s.to, s.over = s.from, first
	sumPairs(a, arrived, s)
	permuteRows(a, a.In[0].Bytes(), first, a.Out[0].Type.Shape[1])
	return nil
}
