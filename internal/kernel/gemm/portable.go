package gemm

import "github.com/gomoe/gomoe/internal/kernel"

// These are the blocks of the portable kernel. With 4 rows and 256 columns the sums (4 KiB
// in float32) stay in the first-level cache, and a panel of 256 by 256 in the second.
const (
	gemmRows = 4
	gemmCols = 256
)

// With more rows than this, copying B's panel costs less than its contiguous rows save.
const gemmPack = 32

// portable is Multiply without fused multiply-adds.
func (w *Workspace[T]) portable(m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, c []T, ldc int, acc bool) {
	rows, sums := kernel.Take(w.Dry, &w.a, gemmRows*min(k, gemmDeep)), kernel.Take(w.Dry, &w.sums, gemmRows*min(n, gemmCols))
	var panel []T // B's columns from j0 on, with element p,j at p*stride+j
	pack := bcs != 1 || m > gemmPack
	if pack {
		panel = kernel.Take(w.Dry, &w.b, min(k, gemmDeep)*min(n, gemmCols))
	}
	if w.Dry != nil {
		return
	}
	if !acc {
		for i := range m {
			clear(c[i*ldc:][:n])
		}
	}
	for k0 := 0; k0 < k; k0 += gemmDeep {
		kn := min(gemmDeep, k-k0)
		for j0 := 0; j0 < n; j0 += gemmCols {
			jn, stride := min(gemmCols, n-j0), brs
			if pack {
				stride = jn
				gather(panel, b[k0*brs+j0*bcs:], kn, jn, brs, bcs)
			} else {
				panel = b[k0*brs+j0:]
			}
			for i := 0; i < m; i += gemmRows {
				in := min(gemmRows, m-i)
				for r := range in {
					src := a[(i+r)*ars+k0*acs:]
					for p := range kn {
						rows[p*gemmRows+r] = src[p*acs]
					}
				}
				s := sums[:in*jn]
				clear(s)
				gemmBlock(in, jn, kn, rows, panel, stride, s)
				for r := range in {
					add(c[(i+r)*ldc+j0:][:jn], s[r*jn:])
				}
			}
		}
	}
}

// gather copies a kn by jn block of b into dst, row after row. Columns not adjacent in b
// are read eight at a time, so that both sides use whole cache lines.
func gather[T kernel.Float](dst, b []T, kn, jn, brs, bcs int) {
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

// portableBlock adds rows·panel to sums. rows has `in` rows, at most 4, of kn elements,
// with element r,p at rows[p*4+r]. panel has kn rows of jn elements, with element p,j at
// panel[p*stride+j]. sums has `in` rows of jn sums. It keeps 2 by 4 sums in registers.
// The conversions to T forbid the compiler to fuse a product with its addition, as it
// would on arm64.
func portableBlock[T kernel.Float](in, jn, kn int, rows, panel []T, stride int, sums []T) {
	for r := 0; r < in; r += 2 {
		two := r+1 < in
		j := 0
		for ; two && j+4 <= jn; j += 4 {
			s, t := sums[r*jn+j:][:4], sums[(r+1)*jn+j:][:4]
			s0, s1, s2, s3 := s[0], s[1], s[2], s[3]
			t0, t1, t2, t3 := t[0], t[1], t[2], t[3]
			for p := range kn {
				a := rows[p*gemmRows+r:][:2]
				b := panel[p*stride+j:][:4]
				x, y := a[0], a[1]
				s0 += T(x * b[0])
				s1 += T(x * b[1])
				s2 += T(x * b[2])
				s3 += T(x * b[3])
				t0 += T(y * b[0])
				t1 += T(y * b[1])
				t2 += T(y * b[2])
				t3 += T(y * b[3])
			}
			s[0], s[1], s[2], s[3] = s0, s1, s2, s3
			t[0], t[1], t[2], t[3] = t0, t1, t2, t3
		}
		for ; j < jn; j++ {
			for q := r; q < min(r+2, in); q++ {
				s := sums[q*jn+j]
				for p := range kn {
					s += T(rows[p*gemmRows+q] * panel[p*stride+j])
				}
				sums[q*jn+j] = s
			}
		}
	}
}
