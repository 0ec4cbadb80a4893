package gemm

import (
	"sync"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// arithmetic holds the operations of fused products on elements of one type. s is scratch
// memory.
type arithmetic[E Number] struct {
	gemm       func(dry *kernel.Dry, m, n, k int, a []E, ars, acs int, b Matrix[E], c []E, ldc int, acc bool)
	swiglu     func(s *space, y, gate, up []E)
	swigluGrad func(s *space, dgate, dup, gate, up, ct []E)
	add        func(s *space, z, x, y []E)
}

func (d *arithmetic[E]) product(dry *kernel.Dry, m, n, k int, x []E, row int, b Matrix[E], c []E, ldc int) {
	d.gemm(dry, m, n, k, x, row, 1, b, c, ldc, false)
}

func arithmeticOf[E Number]() *arithmetic[E] {
	var d any
	switch any(E(0)).(type) {
	case float32:
		d = floatArithmetic[float32]()
	case float64:
		d = floatArithmetic[float64]()
	case array.Brain:
		d = halfArithmetic(array.WidenBrain, array.NarrowBrain)
	case array.Half:
		d = halfArithmetic(array.WidenHalf, array.NarrowHalf)
	}
	return d.(*arithmetic[E])
}

func floatArithmetic[T float32 | float64]() *arithmetic[T] {
	return &arithmetic[T]{
		func(dry *kernel.Dry, m, n, k int, a []T, ars, acs int, b Matrix[T], c []T, ldc int, acc bool) {
			gemmPanels(dry, m, n, k, a, ars, acs, b.X, b.Row, b.Col, b.Panels, c, ldc, acc)
		},
		func(_ *space, y, gate, up []T) { vector.SwiGLU(y, gate, up) },
		func(_ *space, dgate, dup, gate, up, ct []T) { vector.SwiGLUGrad(dgate, dup, gate, up, ct) },
		func(_ *space, z, x, y []T) { vector.Add(z, x, y) },
	}
}

// halfTile is the number of 16-bit numbers widened at a time.
const halfTile = 512

// halfArithmetic computes in float32, rounding once.
func halfArithmetic[E Half](widen func(dst []float32, src []E), narrow func(dst []E, src []float32)) *arithmetic[E] {
	return &arithmetic[E]{
		MultiplyHalfPanels[E, E],
		func(s *space, y, gate, up []E) {
			for i := 0; i < len(y); i += halfTile {
				n := min(halfTile, len(y)-i)
				g, u := s.wide[0][:n], s.wide[1][:n]
				widen(g, gate[i:i+n])
				widen(u, up[i:i+n])
				vector.SwiGLU(g, g, u)
				narrow(y[i:i+n], g)
			}
		},
		func(s *space, dgate, dup, gate, up, ct []E) {
			for i := 0; i < len(gate); i += halfTile {
				n := min(halfTile, len(gate)-i)
				g, u, c := s.wide[0][:n], s.wide[1][:n], s.wide[2][:n]
				widen(g, gate[i:i+n])
				widen(u, up[i:i+n])
				widen(c, ct[i:i+n])
				vector.SwiGLUGrad(g, u, g, u, c)
				narrow(dgate[i:i+n], g)
				narrow(dup[i:i+n], u)
			}
		},
		func(s *space, z, x, y []E) {
			for i := 0; i < len(z); i += halfTile {
				n := min(halfTile, len(z)-i)
				a, b := s.wide[0][:n], s.wide[1][:n]
				widen(a, x[i:i+n])
				widen(b, y[i:i+n])
				vector.Add(a, a, b)
				narrow(z[i:i+n], a)
			}
		},
	}
}

// space is the memory of fused products, kept for the next one.
type space struct {
	dry    *kernel.Dry // nil in a real run
	do     [4]any      // arithmetic by element type, nil until it is needed
	pieces [3][]float64
	wide   [3][halfTile]float32
}

// spaces keeps spaces between products.
var spaces sync.Pool

func spaceOf[E Number](dry *kernel.Dry) (*space, *arithmetic[E]) {
	var s *space
	if dry != nil {
		s = kernel.Space[space](dry)
		s.dry = dry
	} else if kept, ok := spaces.Get().(*space); ok {
		s = kept
	} else {
		s = new(space)
	}
	kept := &s.do[0]
	switch any(E(0)).(type) {
	case float64:
		kept = &s.do[1]
	case array.Brain:
		kept = &s.do[2]
	case array.Half:
		kept = &s.do[3]
	}
	do, ok := (*kept).(*arithmetic[E])
	if !ok {
		do = arithmeticOf[E]()
		*kept = do
	}
	return s, do
}

func (s *space) release() {
	if s.dry == nil {
		spaces.Put(s)
	}
}

// spaceFor returns n elements of scratch memory in a slot, aligned to a cache line. They
// are valid until the next call for the slot.
func spaceFor[E Number](s *space, slot, n int) []E {
	size := int(unsafe.Sizeof(E(0)))
	mem := kernel.Take(s.dry, &s.pieces[slot], (n*size+7)/8)
	n = min(n, len(mem)*8/size) // none in a dry run
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(mem))), n)
}
