package attention

import (
	"fmt"
	"testing"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/testing/numbers"
)

// A dry run of attention, forward alone and both ways, counts what it takes.
func TestDryAttention(t *testing.T) {
	for _, vec := range []kernel.Kind{kernel.VectorsOf[float32](), kernel.Portable} {
		for _, c := range []struct{ s, d int }{{1, 16}, {5, 3}, {7, 32}, {64, 64}, {100, 40}, {130, 24}, {700, 32}, {1000, 17}} {
			for _, causal := range []bool{false, true} {
				for _, back := range []bool{false, true} {
					a := Attention[float32]{S: c.s, R: c.s, D: c.d, V: c.d, Scale: 1, Causal: causal}
					run := func(h *Attender[float32], lse []float32, rows func() kernel.Rows[float32]) {
						h.Forward(rows(), rows(), lse, Terms[float32]{}, 0, c.s)
						for n := range a.Parts() {
							if from, end := a.Part(n); back {
								h.Backward(rows(), rows(), lse, rows(), nil, rows(), kernel.Rows[float32]{}, from, end)
								h.AddTo(rows(), rows(), n == 0)
							}
						}
						h.Release()
					}
					rows := func() kernel.Rows[float32] { return kernel.Rows[float32]{X: make([]float32, c.s*c.d), Stride: c.d} }
					for attenders[float32]().Get() != nil { // the memory of other tests
					}
					h, d := a.attend(nil, vec, rows(), rows()), new(kernel.Dry)
					run(h, make([]float32, c.s), rows)
					none := func() kernel.Rows[float32] { return kernel.Rows[float32]{Stride: c.d} }
					run(a.attend(d, vec, none(), none()), nil, none)
					numbers.SameMemory(t, fmt.Sprint(vec, a, back), d.Taken(), h)
				}
			}
		}
	}
}
