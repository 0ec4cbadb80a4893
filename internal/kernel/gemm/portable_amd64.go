package gemm

import (
	"unsafe"

	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gomoe/gomoe/internal/kernel"
)

// gemmBlock is portableBlock as kn rank-one updates, which gonum has in SSE
// assembly. Its Ger multiplies and adds element by element, without fusing and
// without skipping zeros (which its Axpy does), so the bits are the same.
func gemmBlock[T kernel.Float](in, jn, kn int, rows, panel []T, stride int, sums []T) {
	if jn < 8 { // so short that calls cost more than vectors save
		portableBlock(in, jn, kn, rows, panel, stride, sums)
		return
	}
	var blas gonum.Implementation
	if unsafe.Sizeof(T(0)) == 4 {
		x, y, s := kernel.Float32s(rows), kernel.Float32s(panel), kernel.Float32s(sums)
		for p := range kn {
			blas.Sger(in, jn, 1, x[p*gemmRows:], 1, y[p*stride:][:jn], 1, s, jn)
		}
		return
	}
	x, y, s := kernel.Float64s(rows), kernel.Float64s(panel), kernel.Float64s(sums)
	for p := range kn {
		blas.Dger(in, jn, 1, x[p*gemmRows:], 1, y[p*stride:][:jn], 1, s, jn)
	}
}
