package kernel

// Gemm's blocks. At 4 rows and 256 columns the sums (4 KiB in float32) stay in
// the first level cache, and a panel of 256 by 256 in the second. Measured on an
// AMD Zen 5 core, float32, n=512: 28 GFLOP/s, against 26 with 128 columns, 27
// with 8 or 16 rows, 9 for the portable loop, and 15 for gonum's own product.
const (
	gemmRows = 4
	gemmCols = 256
	gemmDeep = 256
)

// From this many rows on, copying B's panel costs less than what its contiguous
// rows save.
const gemmPack = 32

// Gemm sets C = A·B, or adds A·B to C if acc is set. A is m by k with element
// i,p at a[i*ars+p*acs], B is k by n with element p,j at b[p*brs+j*bcs], C is m
// by n with element i,j at c[i*ldc+j]. C does not overlap A or B. A transposed
// operand is one with its strides swapped; a stride of 0 repeats.
//
// The order of additions is part of the contract. Element i,j of C is
//
//	((C + s0) + s1) + …,   sb = ((0 + a[i,256b]·b[256b,j]) + a[i,256b+1]·b[256b+1,j]) + …
//
// over blocks of 256 in k, with C replaced by 0 if acc is not set, and every
// product and sum rounded. So it depends on row i of A and column j of B alone,
// whatever m, n, the strides and the machine. Zeros are not skipped: 0·NaN is
// NaN. GemmRef is the same in three loops.
//
// It does not start goroutines: a caller splits rows or columns.
func Gemm[T Float](m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, c []T, ldc int, acc bool) {
	w := workspaceOf[T]()
	defer w.release()
	w.gemm(m, n, k, a, ars, acs, b, brs, bcs, c, ldc, acc)
}

// gemm is Gemm in the memory of w.
func (w *workspace[T]) gemm(m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, c []T, ldc int, acc bool) {
	if m <= 0 || n <= 0 {
		return
	}
	if !acc {
		for i := range m {
			clear(c[i*ldc:][:n])
		}
	}
	var panel []T // B's columns from j0 on: element p,j at p*stride+j
	pack := bcs != 1 || m > gemmPack
	if pack && w.panel == nil {
		w.panel = make([]T, gemmDeep*gemmCols)
	}
	for k0 := 0; k0 < k; k0 += gemmDeep {
		kn := min(gemmDeep, k-k0)
		for j0 := 0; j0 < n; j0 += gemmCols {
			jn, stride := min(gemmCols, n-j0), brs
			if pack {
				stride, panel = jn, w.panel
				gather(panel, b[k0*brs+j0*bcs:], kn, jn, brs, bcs)
			} else {
				panel = b[k0*brs+j0:]
			}
			for i := 0; i < m; i += gemmRows {
				in := min(gemmRows, m-i)
				for r := range in {
					src := a[(i+r)*ars+k0*acs:]
					for p := range kn {
						w.rows[p*gemmRows+r] = src[p*acs]
					}
				}
				s := w.sums[:in*jn]
				clear(s)
				gemmBlock(in, jn, kn, w.rows[:], panel, stride, s)
				for r := range in {
					dst := c[(i+r)*ldc+j0:][:jn]
					for j, x := range s[r*jn:][:jn] {
						dst[j] += x
					}
				}
			}
		}
	}
}

// gather copies a kn by jn block of b into dst, row after row. Columns that lie
// contiguous in b are read eight at a time, so that both sides use whole cache
// lines.
func gather[T Float](dst, b []T, kn, jn, brs, bcs int) {
	if bcs == 1 {
		for p := range kn {
			copy(dst[p*jn:][:jn], b[p*brs:])
		}
		return
	}
	const step = 8
	for j0 := 0; j0 < jn; j0 += step {
		for p := range kn {
			for j := j0; j < min(j0+step, jn); j++ {
				dst[p*jn+j] = b[p*brs+j*bcs]
			}
		}
	}
}
