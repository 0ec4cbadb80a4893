package attention

import (
	"unsafe"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
)

// Need is what an Attender takes for Forward, or with `back` for Backward too.
func (a Attention[T]) Need(back bool) kernel.Need { return a.need(kernel.VectorsOf[T](), back) }

func (a Attention[T]) need(vec kernel.Kind, back bool) kernel.Need {
	own, size := "attend."+gemm.NameOf[T](), int64(unsafe.Sizeof(T(0)))
	need := kernel.Need{own: int64(unsafe.Sizeof(Attender[T]{}))}
	if a.S == 0 {
		return need
	}
	add := func(buf string, n int) { need[own+"."+buf] = int64(n) * size }
	wide := kernel.RoundUp(a.D, kernel.Lanes)
	if a.D == 0 || vec != kernel.AVX2 && vec != kernel.AVX512 {
		const block = attentionBlock
		in := min(block, a.S)
		add("p", block*block)
		add("values", block*a.D)
		products := kernel.Need{}
		product := func(m, n, k, bcs int) {
			products = products.And(gemm.FloatNeed[T](m, n, k, bcs))
		}
		for first, rows := range [2]int{(a.S-1)%block + 1, in} { // of the last block, and of the first
			product(rows, in, a.D, 2)
			if !a.Causal || back || first == 0 && a.S > block || a.S >= 2*block {
				product(rows, a.D, in, 1)
			}
		}
		if a.Causal { // a block is multiplied row by row where it is cut
			product(1, a.D, in, 1)
		}
		if back {
			longest := 0
			for n := range a.Parts() {
				from, to := a.Part(n)
				longest = max(longest, to-from)
			}
			add("ds", block*block)
			add("dk", a.S*a.D)
			add("dv", a.S*a.D)
			add("delta", longest)
		}
		for buf, bytes := range products {
			if buf != gemm.NameOf[T]() { // the workspace is part of the attender
				need["attend."+buf] = bytes
			}
		}
		return need
	}
	width := kernel.RoundUp(min(laneQueries, a.S), kernel.Lanes)
	rows := kernel.RoundUp(a.S, 8) * wide
	add("k", rows)
	add("v", rows)
	add("qt", a.D*width)
	add("sums", wide*width)
	add("p", laneKeys*width)
	if back {
		add("dk", rows)
		add("dv", rows)
		add("q", width*wide)
		add("g", width*wide)
		add("gt", a.D*width)
		add("ds", laneKeys*width)
	}
	return need
}
