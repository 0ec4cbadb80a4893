package gemm

import "github.com/gomoe/gomoe/internal/kernel"

// Ref is Multiply in three loops. It is the specification of the portable kernel, which has
// the same bits.
func Ref[T kernel.Float](m, n, k int, a []T, ars, acs int, b []T, brs, bcs int, c []T, ldc int, acc bool) {
	for i := range m {
		for j := range n {
			var sum T
			if acc {
				sum = c[i*ldc+j]
			}
			for k0 := 0; k0 < k; k0 += gemmDeep {
				var s T
				for p := k0; p < min(k0+gemmDeep, k); p++ {
					s += T(a[i*ars+p*acs] * b[p*brs+j*bcs])
				}
				sum += s
			}
			c[i*ldc+j] = sum
		}
	}
}
