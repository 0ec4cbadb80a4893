package gemm

import (
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/pack"
)

// Panels are a copy of a right operand in the order read by tiles, made once for many
// products. A product with panels of B copies nothing of B, and has the same bits as a
// product without panels. The zero Panels are none.
//
// BenchmarkPanels measured when panels pay, on one core with AVX-512 and VDPBF16PS: 16
// matrices of 1024 by 1024, read from memory, were each multiplied by the given number of
// rows. The three times, in ms, are with the product's own copies, with kept panels, and
// with panels made in a pass before each product:
//
//	rows                 1                 16                128                512
//	bf16          1.3 1.0  3.8      3.2 2.2  4.7     12.0 10.7 13.6     42.2 42.6 44.4
//	bf16, B^T     2.6 1.0  4.1      3.5 2.2  5.4     12.0 10.4 14.0     46.9 45.4 49.9
//	f32           2.2 2.0  7.2      3.7 3.9  8.9     24.6 21.7 26.9     92.7 89.7 94.9
//	f32, B^T      4.8 2.2  7.7      6.7 3.9  8.8     26.8 21.2 27.7     92.1 88.0 94.9
//
// So panels are for constant weights. They never pay if they are remade each time: a pass
// goes through memory, but a product's own copies stay in a cache. A product of float32
// and a B with contiguous rows gains too little for twice the memory, because the first
// tile copies B while reading it, and few rows read B in place. So PanelBytes is 0 for
// it.
type Panels struct {
	mem  []byte
	k, n int // the size of the whole operand
	at   int // the first column in use; see From
}

// A product with panels that is cut into pieces of columns is cut at multiples of PanelUnit.
const PanelUnit = 96

// PanelBytes returns the size in bytes of the panels of k by n numbers, which are
// contiguous along n, or along k if transposed is set. It is 0 if the selected kernels do
// not use panels: if they widen 16-bit numbers, if they are portable, and for float32 and
// float64 that are not transposed. Kernels with the same bits return the same size, so
// ranks on different processors have the same plan.
func PanelBytes[E Number](k, n int, transposed bool) int {
	ks := selected()
	return panelBytes[E](ks, k, n, transposed)
}

func panelBytes[E Number](ks kernels, k, n int, transposed bool) int {
	switch any(E(0)).(type) {
	case float32, float64:
		if s := ks.set(unsafe.Sizeof(E(0))); s != nil && transposed {
			return k * kernel.RoundUp(n, kernel.Lanes) * int(unsafe.Sizeof(E(0)))
		}
	case array.Brain:
		if s := ks.bf16; s != nil {
			return s.depth(k) / 2 * kernel.RoundUp(n, pairLanes) * 4
		}
	}
	return 0
}

// PanelsIn returns Panels of k by n numbers in mem, which Pack fills. mem has PanelBytes
// bytes and is aligned to 8 bytes. It stays the caller's.
func PanelsIn(mem []byte, k, n int) Panels { return Panels{mem: mem, k: k, n: n} }

// From returns the panels of the columns from j on.
func (p Panels) From(j int) Panels {
	p.at += j
	return p
}

// fit reports whether a product of n columns, in tiles of `wide` columns, can use the
// panels: there are some, and neither the first nor the last of them is cut.
func (p Panels) fit(n, wide int) bool {
	return p.mem != nil && p.at%wide == 0 && (n%wide == 0 || p.at+n == p.n)
}

// Pack fills the columns `from` to `to`-1 of p from b, the whole operand. from is a
// multiple of PanelUnit, and so is to unless it is the number of columns. Several
// goroutines may fill different columns at the same time.
func Pack[E Number](p Panels, b Matrix[E], from, to int) {
	ks := selected()
	packPanels(ks, p, b, from, to)
}

func packPanels[E Number](ks kernels, p Panels, b Matrix[E], from, to int) {
	switch x := any(b.X).(type) {
	case []float32:
		packFloats(ks.f32, p, x, b.Row, b.Col, from, to)
	case []float64:
		packFloats(ks.f64, p, x, b.Row, b.Col, from, to)
	case []array.Brain:
		s := ks.bf16
		mem, columns := elementsOf[uint32](p.mem), kernel.RoundUp(p.n, pairLanes)
		for k0 := 0; k0 < p.k; k0 += s.deep {
			kn := min(s.deep, p.k-k0)
			pairs := s.depth(kn) / 2
			for j := from; j < to; j += s.wide {
				v := min(s.wide, to-j)
				s.packPairs(mem[k0/2*columns+j*pairs:], kernel.RoundUp(v, pairLanes), pairs, x[k0*b.Row+j*b.Col:], v, kn, b.Row, b.Col)
			}
		}
	}
}

func packFloats[T kernel.Float](s *set, p Panels, b []T, brs, bcs, from, to int) {
	mem, columns, wide := elementsOf[T](p.mem), kernel.RoundUp(p.n, s.lanes), tileVecs*s.lanes
	for k0 := 0; k0 < p.k; k0 += gemmDeep {
		kn := min(gemmDeep, p.k-k0)
		for j := from; j < to; j += wide {
			v := min(wide, to-j)
			pack.Panel(s.packs, mem[k0*columns+j*kn:], kernel.RoundUp(v, s.lanes), b[k0*brs+j*bcs:], v, kn, brs, bcs)
		}
	}
}

// panel returns the address of the panel of floats with columns from j on, in the block
// of depth kn beginning at k0.
func panel[T kernel.Float](p Panels, s *set, k0, kn, j int) *T {
	return &elementsOf[T](p.mem)[k0*kernel.RoundUp(p.n, s.lanes)+(p.at+j)*kn]
}

// pairs is panel for panels of pairs.
func (p Panels) pairs(s *halfSet, k0, pairs, j int) *uint32 {
	return &elementsOf[uint32](p.mem)[k0/2*kernel.RoundUp(p.n, pairLanes)+(p.at+j)*pairs]
}

func elementsOf[E any](mem []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(e)))
}

// MultiplyPanels is Multiply, or MultiplyHalf with a result of its arguments' type, with a
// matrix b that may have panels.
func MultiplyPanels[E Number](dry *kernel.Dry, m, n, k int, a []E, ars, acs int, b Matrix[E], c []E, ldc int, acc bool) {
	switch x := any(a).(type) {
	case []float32:
		gemmPanels(dry, m, n, k, x, ars, acs, any(b.X).([]float32), b.Row, b.Col, b.Panels, any(c).([]float32), ldc, acc)
	case []float64:
		gemmPanels(dry, m, n, k, x, ars, acs, any(b.X).([]float64), b.Row, b.Col, b.Panels, any(c).([]float64), ldc, acc)
	case []array.Brain:
		MultiplyHalfPanels(dry, m, n, k, x, ars, acs, any(b).(Matrix[array.Brain]), any(c).([]array.Brain), ldc, acc)
	case []array.Half:
		MultiplyHalfPanels(dry, m, n, k, x, ars, acs, any(b).(Matrix[array.Half]), any(c).([]array.Half), ldc, acc)
	}
}
