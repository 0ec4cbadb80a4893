package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Rows that leave without weights and as they are take as many bytes as the rows of the zones.
// The plan may have them packed in the zones' memory then, so that no rank holds them twice.

// fitsZones reports whether rows of the payload travel as they are, if they travel as type wire.
func fitsZones(payload []lowering.Buf, wire graph.DType) bool {
	return len(payload) == 1 && wire == payload[0].Type.DType
}

// overZones reports whether the kernel's result lies in the memory of its first argument.
func overZones(a *exec.Args) bool {
	rows, packed := a.In[0].Bytes(), a.Out[0].Bytes()
	return len(rows) > 0 && len(packed) > 0 && &rows[0] == &packed[0]
}

// permuteRows sets row j of mem, whose rows have size bytes, to what row from[j] was, for every
// j. No row is there twice in from. Rows behind these have any contents afterwards.
func permuteRows(a *exec.Args, mem []byte, from []int32, size int) {
	n := len(from)
	// Moves in an order in which no row is written before it is read: first chains, which begin
	// at a row that nobody reads, then cycles, for each of which one row is put aside.
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
		order = append(order, ^int32(j)) // row j is put aside
		for at := j; !done[at]; at = int(from[at]) {
			done[at], order = true, append(order, int32(at))
		}
	}
	if len(order) == 0 {
		return
	}
	// Threads share the columns: a row is moved after another one.
	parts := 1
	if n >= movedGrain(size) {
		parts = max(1, min(a.Threads, size/512))
	}
	exec.Share(a, parts, 1, rowsPermuted{mem, from, order, size, parts, exec.RoomsOf[byte](a, size)})
}

// rowsPermuted is the work of moving rows within their memory. order is that of the rows that
// are written; ^j puts row j aside, where the row that reads it finds it.
type rowsPermuted struct {
	mem         []byte
	from, order []int32
	size, parts int
	rooms       *exec.Rooms[byte]
}

func (w *rowsPermuted) Piece(lo, hi int) {
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

// sumsInZones writes, for each of the rows that have arrived, the sum of its rows of the zones
// over the first of these, and then brings the sums together at the beginning of the memory.
// The arguments are those of packSums.
func sumsInZones(a *exec.Args, arrived int, s rowSum[float32]) error {
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
