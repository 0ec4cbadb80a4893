package primitives

import (
	"slices"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
)

// The payload of a row is the token's values, optionally followed by weights: the weight of
// the pair or, if one row serves several pairs, the weights of all choices of the token. On
// the token's rank, the first payload array has one row per token and the second one element
// per pair. In expert order, both have one entry per row.

// rowTypes returns the types of the fields of a packed row. weights is the number of weights,
// if the payload has weights.
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

// entrySize returns the bytes of an entry of an array of type t: a row, or an element of a vector.
func entrySize(t graph.Type) int {
	if t.Rank() == 2 {
		return rowSize(t)
	}
	return t.DType.Size()
}

// element returns the bytes of element i of a, whatever its shape.
func element(a array.Array, i int) []byte {
	size := a.Type.DType.Size()
	return a.Bytes()[i*size : (i+1)*size]
}

// movedGrain is the least number of rows of size bytes worth a goroutine, when gathering or
// scattering rows.
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

// rowField locates a field of every row in memory: part c of the field of row i has size bytes at
// first + i·stride + c·size.
type rowField struct {
	mem                 []byte
	first, stride, size int
}

func (c *rowField) part(i, part int) []byte {
	at := c.first + i*c.stride + part*c.size
	return c.mem[at : at+c.size]
}

// rowLayout locates the values of rows and, if there are any, their weights.
type rowLayout struct{ values, weights rowField }

// arrayLayout locates rows in separate arrays: values and, if there are two arrays, k weights per row.
func arrayLayout(payload []array.Array, k int) rowLayout {
	size := entrySize(payload[0].Type)
	p := rowLayout{values: rowField{payload[0].Bytes(), 0, size, size}}
	if len(payload) == 2 {
		size := payload[1].Type.DType.Size()
		p.weights = rowField{payload[1].Bytes(), 0, k * size, size}
	}
	return p
}

// packedLayout locates packed rows. values is the bytes of their values, first the offset of their weights, and
// weight the bytes of a weight.
func packedLayout(x array.Array, values, first, weight int) rowLayout {
	stride := x.Type.Shape[x.Type.Rank()-1]
	return rowLayout{rowField{x.Bytes(), 0, stride, values}, rowField{x.Bytes(), first, stride, weight}}
}

// rowMove is the work of gathering rows: row i of the destination becomes row at[i] of the source, with its weight.
type rowMove struct {
	to, from rowLayout
	at       []int32 // -1 for a row without a source
	choice   []int32 // the number of the row's weight in the source; nil for the first
	clear    bool    // rows without a source are zeroed
}

func (m *rowMove) Piece(lo, hi int) {
	for i := lo; i < hi; i++ {
		j := int(m.at[i])
		if j < 0 {
			if m.clear {
				clear(m.to.values.mem[i*m.to.values.stride:][:m.to.values.stride])
			}
			continue
		}
		copy(m.to.values.part(i, 0), m.from.values.part(j, 0))
		if m.to.weights.size > 0 {
			c := 0
			if m.choice != nil {
				c = int(m.choice[i])
			}
			copy(m.to.weights.part(i, 0), m.from.weights.part(j, c))
		}
	}
}

// rowConversion is a rowMove that also converts values from type d to type as. If there are factors, values are
// multiplied by their row's factor before rounding.
type rowConversion[T float] struct {
	rowMove
	d, as   graph.DType
	factors []T
	own     bool // factors are indexed by destination rows, not by source rows
	over    bool // in place: a row overwrites its source
	rooms   *exec.Rooms[T]
}

// convertRows moves and converts n rows of the given number of columns.
func convertRows[T float](a *exec.Args, n, width int, m rowConversion[T]) {
	if m.rooms = nil; m.d != m.as || m.d != array.DTypeOf[T]() {
		m.rooms = exec.RoomsOf[T](a, width)
	}
	exec.Share(a, n, movedGrain(width*m.d.Size()), m)
}

func (m *rowConversion[T]) Piece(lo, hi int) {
	var room []T
	if m.rooms != nil {
		room = m.rooms.Take()
	}
	for i := lo; i < hi; i++ {
		j, to := int(m.at[i]), i
		if j < 0 {
			m.rowMove.Piece(i, i+1)
			continue
		}
		if m.over {
			to = j
		}
		src, dst := m.from.values.part(j, 0), m.to.values.part(to, 0)
		x, y := room, room
		if m.rooms == nil {
			x, y = view[T](src), view[T](dst)
		} else {
			widenRow(x, src, m.d)
		}
		switch {
		case m.own:
			scale(y, x, m.factors[i])
		case m.factors != nil:
			scale(y, x, m.factors[j])
		}
		if m.rooms != nil {
			narrowRow(dst, y, m.as)
		}
		if m.to.weights.size > 0 {
			copy(m.to.weights.part(i, 0), m.from.weights.part(j, 0))
		}
	}
}

// rowSum is the work of adding rows of n values of type d. Sum i adds the rows of pairs i·k to i·k+k-1 in order,
// in type T, and is rounded once to type as.
type rowSum[T float] struct {
	to, from rowLayout // to has k weights per sum
	next     rowLayout // more rows, numbered after the last row of from; none if empty
	index    []int32   // the row of each pair, -1 for none; nil if pair i has row i
	shared   bool      // pairs of a sum may share a row: it is added once, and has a weight for each of them
	over     []int32   // the row that each sum overwrites; nil if sums are not in place
	factors  []T       // multiply the rows; nil for none
	d, as    graph.DType
	k, n     int
	rooms    *exec.Rooms[T]
}

// sumPairs computes the sums in f64 if a type is f64, and otherwise in f32.
func sumPairs(a *exec.Args, sums int, s rowSum[float32]) {
	if s.d == graph.F64 || s.as == graph.F64 {
		sumPairsAs(a, sums, rowSum[float64]{to: s.to, from: s.from, next: s.next, index: s.index, shared: s.shared, over: s.over, d: s.d, as: s.as, k: s.k, n: s.n})
		return
	}
	sumPairsAs(a, sums, s)
}

func sumPairsAs[T float](a *exec.Args, sums int, s rowSum[T]) {
	if s.over != nil || s.d != s.as || s.d != array.DTypeOf[T]() {
		s.rooms = exec.RoomsOf[T](a, 2*s.n)
	}
	exec.Share(a, sums, 1+cheap/(1+s.k*s.n), s)
}

func (s *rowSum[T]) Piece(lo, hi int) {
	var sum, wide []T
	if s.rooms != nil {
		room := s.rooms.Take()
		sum, wide = room[:s.n], room[s.n:]
	}
	t := array.DTypeOf[T]()
	for i := lo; i < hi; i++ {
		to, acc := i, sum
		if s.over != nil {
			to = int(s.over[i])
		}
		dst := s.to.values.part(to, 0)[:wireBytes(s.as, s.n)]
		if s.as == t && s.over == nil {
			acc = view[T](dst)
		}
		clear(acc)
		for pair := i * s.k; pair < (i+1)*s.k; pair++ {
			s.add(acc, wide, i, pair)
		}
		switch {
		case s.as != t:
			narrowRow(dst, acc, s.as)
		case s.over != nil:
			copy(view[T](dst), acc)
		}
	}
}

// add adds the row of a pair to sum i, and writes the pair's weight. wide is scratch for a row.
func (s *rowSum[T]) add(acc, wide []T, i, pair int) {
	j, c := pair, pair-i*s.k
	if s.index != nil {
		j = int(s.index[pair])
	}
	from := &s.from
	if v := &from.values; s.next.values.mem != nil {
		if n := len(v.mem) / max(v.stride, 1); j >= n {
			from, j = &s.next, j-n
		}
	}
	if s.to.weights.size > 0 {
		w := s.to.weights.part(i, c)
		switch {
		case j < 0:
			clear(w)
		case s.shared:
			copy(w, from.weights.part(j, c))
		default:
			copy(w, from.weights.part(j, 0))
		}
	}
	if j < 0 || s.shared && slices.Contains(s.index[i*s.k:pair], s.index[pair]) {
		return
	}
	row := wide
	if x := from.values.part(j, 0)[:wireBytes(s.d, s.n)]; s.d == array.DTypeOf[T]() {
		row = view[T](x)
	} else {
		widenRow(wide, x, s.d)
	}
	if s.factors != nil {
		vector.AddScaled(acc, acc, row, s.factors[j])
	} else {
		vector.Add(acc, acc, row)
	}
}

// view reinterprets bytes as elements.
func view[E array.Elem](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}
