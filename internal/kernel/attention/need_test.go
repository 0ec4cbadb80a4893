package attention

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
)

// taken compares what buffers have become with what was said that they would.
func taken(t *testing.T, what string, got, want kernel.Need) {
	t.Helper()
	for buf, bytes := range want {
		if _, ok := got[buf]; !ok && bytes > 0 {
			t.Fatalf("%s: %s is said to take %d bytes, and there is none", what, buf, bytes)
		}
	}
	for buf, bytes := range got {
		const line = 64
		if bytes < want[buf] || bytes > want[buf]+line {
			t.Fatalf("%s: %s takes %d bytes, and %d is what was said", what, buf, bytes, want[buf])
		}
	}
}

// The same for attention, forward alone and both ways.
func TestNeedOfAttention(t *testing.T) {
	for _, vec := range []kernel.Kind{kernel.VectorsOf[float32](), kernel.Portable} {
		for _, c := range []struct{ s, d int }{{5, 3}, {64, 64}, {100, 40}, {130, 24}, {700, 32}, {1000, 17}} {
			for _, causal := range []bool{false, true} {
				for _, back := range []bool{false, true} {
					a := Attention[float32]{S: c.s, D: c.d, Scale: 1, Causal: causal}
					x := make([]float32, c.s*c.d)
					rows := Rows[float32]{x, c.d}
					to := func() Rows[float32] { return Rows[float32]{make([]float32, c.s*c.d), c.d} }
					h := new(Attender[float32])
					h.Attention, h.k, h.v, h.block.vec = a, rows, rows, kernel.VectorsOf[float32]()
					if vec == kernel.AVX2 || vec == kernel.AVX512 { // as attend does
						h.lanes.begin(vec)
					}
					lse := make([]float32, c.s)
					h.Forward(rows, to(), lse, 0, c.s)
					if back {
						for n := range a.Parts() {
							from, end := a.Part(n)
							h.Backward(rows, rows, lse, rows, nil, to(), from, end)
						}
					}
					taken(t, fmt.Sprint(vec, a, back), h.taken(), a.need(vec, back))
				}
			}
		}
	}
}

func (h *Attender[T]) taken() kernel.Need {
	got := kernel.Need{"attend.f32": int64(unsafe.Sizeof(Attender[T]{}))}
	add := func(buf string, n int) { got["attend.f32."+buf] += 4 * int64(n) }
	for buf, bytes := range h.block.work.Held() {
		if buf != "f32" {
			got["attend."+buf] = bytes
		}
	}
	l, b := &h.lanes, &h.block
	add("k", len(l.k))
	add("v", len(l.v))
	add("qt", len(l.qt))
	add("gt", len(l.gt))
	add("q", len(l.q))
	add("g", len(l.g))
	add("sums", len(l.sums)) // .sums of products of blocks are there, too
	add("p", len(l.p)+len(b.p))
	add("ds", len(l.ds)+len(b.ds))
	add("dk", len(l.dk)+len(b.dk))
	add("dv", len(l.dv)+len(b.dv))
	add("delta", len(b.delta))
	add("values", len(b.sums))
	return got
}
