package primitives

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
)

// The payload of a row is the token's values and, if weights travel along, behind
// them weights: the weight of the pair, or of all choices of the token where its row
// travels once for several pairs. At home, the first payload array has one row per
// token and the second one element per pair. In expert order, both have one entry
// per row.

// rowTypes returns the types of what one row of the payload consists of, with that many
// weights if there are weights.
func rowTypes(payload []graph.Type, weights int) []graph.Type {
	types := []graph.Type{graph.T(payload[0].DType, payload[0].Shape[1])}
	if len(payload) == 2 {
		types = append(types, graph.T(payload[1].DType, weights))
	}
	return types
}

func bufTypes(payload []lowering.Buf) []graph.Type {
	t := make([]graph.Type, len(payload))
	for i, b := range payload {
		t[i] = b.Type
	}
	return t
}

// bytesOf returns the bytes of one value of each type.
func bytesOf(types []graph.Type) int {
	n := int64(0)
	for _, t := range types {
		n += t.Bytes()
	}
	return int(n)
}

// entry returns the bytes of entry i of a, which has a row of one or more
// elements per entry.
func entry(a array.Array, i int) []byte {
	size := a.Type.DType.Size()
	if a.Type.Rank() == 2 {
		size *= a.Type.Shape[1]
	}
	return a.Bytes()[i*size : (i+1)*size]
}

// element returns the bytes of element i of a, whatever its shape.
func element(a array.Array, i int) []byte {
	size := a.Type.DType.Size()
	return a.Bytes()[i*size : (i+1)*size]
}

// packRow writes entry `row` of the payload, and at the end the weight of element `pair`
// if there are weights, to dst. The rows of other ranks may have more columns.
func packRow(dst []byte, payload []array.Array, row, pair int) {
	copy(dst, entry(payload[0], row))
	if len(payload) == 2 {
		w := element(payload[1], pair)
		copy(dst[len(dst)-len(w):], w)
	}
}

// movedGrain is the least number of rows of size bytes that is worth a goroutine
// that copies each row to a place of its own.
func movedGrain(size int) int { return 1 + 4*cheap/(1+size) }

// total returns the sum of i32 counts.
func total(a array.Array) int { return sumOf(data[int32](a)) }

func sumOf(counts []int32) int {
	n := 0
	for _, c := range counts {
		n += int(c)
	}
	return n
}

// sumHome writes to Out[0] the sum of every token's rows over its k choices, in
// order, and to Out[1], if there is one, the weight of every pair. row returns the
// bytes of a pair's values, of type d, and of its weight, nil if the pair has no row.
func sumHome(a *exec.Args, k int, d graph.DType, row pairRow) {
	t := a.Out[0].Type
	sumPairsTo(a, t.Shape[0], rowSums{Args: a, d: d, k: k, n: t.Shape[1], row: row, to: tokenHere, put: putWeight}, t.DType)
}

// tokenHere returns token t of the result.
func tokenHere(a *exec.Args, t int) []byte { return entry(a.Out[0], t) }

// sumPairs computes n sums of type `to`, which is that of the rows, or f32. bf16 and f16 are
// added in f32, and rounded once unless the sums are f32.
func sumPairs(a *exec.Args, n int, s rowSums, to graph.DType) {
	grain := 1 + cheap/(1+s.k*s.n)
	switch s.d {
	case graph.F64:
		exec.Share(a, n, grain, wholeSums[float64]{s, roomsOver[float64](a, s)})
	case graph.F32:
		exec.Share(a, n, grain, wholeSums[float32]{s, roomsOver[float32](a, s)})
	case graph.BF16, graph.F16:
		exec.Share(a, n, grain, wideSums{s, to == graph.F32, exec.RoomsOf[float32](a, 2*s.n)})
	}
}

// pairRow returns the bytes of the values and of the weight of a pair, nil if the pair
// has no row.
type pairRow func(a *exec.Args, pair int) (x, w []byte)

// rowSums is the work of adding the rows of k pairs each, of n elements of type d. Packed rows
// may have room for more: that of the rank with the most columns.
type rowSums struct {
	*exec.Args
	d    graph.DType
	k, n int
	row  pairRow
	to   func(a *exec.Args, i int) []byte       // returns where sum i is written
	put  func(a *exec.Args, pair int, w []byte) // writes the weight of a pair
	over bool                                   // a sum is written over one of its rows
}

// wholeSums are rowSums whose result has the type in which rows are added.
type wholeSums[T float] struct {
	rowSums
	rooms *exec.Rooms[T] // nil unless sums are written over rows
}

// roomsOver returns memory in which sums are made that are written over rows.
func roomsOver[T float](a *exec.Args, s rowSums) *exec.Rooms[T] {
	if !s.over {
		return nil
	}
	return exec.RoomsOf[T](a, s.n)
}

func (s *wholeSums[T]) Piece(lo, hi int) {
	var room []T
	if s.over {
		room = s.rooms.Take()
	}
	for t := lo; t < hi; t++ {
		dst := view[T](s.to(s.Args, t))[:s.n]
		acc := dst
		if s.over {
			acc = room
		}
		clear(acc)
		for pair := t * s.k; pair < (t+1)*s.k; pair++ {
			x, w := s.row(s.Args, pair)
			if x != nil {
				vector.Add(acc, acc, view[T](x)[:s.n])
			}
			s.put(s.Args, pair, w)
		}
		if s.over {
			copy(dst, acc)
		}
	}
}

// wideSums are rowSums of bf16 and of f16. The sums have the type of the rows, or are f32.
type wideSums struct {
	rowSums
	wide  bool // the sums are f32
	rooms *exec.Rooms[float32]
}

func (s *wideSums) Piece(lo, hi int) {
	room, k, brain := s.rooms.Take(), s.k, s.d == graph.BF16
	acc, wide := room[:s.n], room[s.n:]
	for t := lo; t < hi; t++ {
		dst := s.to(s.Args, t)
		if s.wide {
			acc = view[float32](dst)[:s.n]
		}
		clear(acc)
		for pair := t * k; pair < (t+1)*k; pair++ {
			x, w := s.row(s.Args, pair)
			switch {
			case x == nil:
			case brain:
				array.WidenBrain(wide, view[array.Brain](x)[:s.n])
				vector.Add(acc, acc, wide)
			default:
				array.WidenHalf(wide, view[array.Half](x)[:s.n])
				vector.Add(acc, acc, wide)
			}
			s.put(s.Args, pair, w)
		}
		switch {
		case s.wide: // the sum is there
		case brain:
			array.NarrowBrain(view[array.Brain](dst)[:s.n], acc)
		default:
			array.NarrowHalf(view[array.Half](dst)[:s.n], acc)
		}
	}
}

// putWeight writes the weight of a pair, or 0 if the pair has no row. It does nothing
// if weights do not travel along.
func putWeight(a *exec.Args, pair int, w []byte) {
	if len(a.Out) == 2 {
		dst := element(a.Out[1], pair)
		clear(dst)
		copy(dst, w)
	}
}

// view reads bytes as elements.
func view[E array.Elem](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
