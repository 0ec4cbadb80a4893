package kernel

// portableBlock adds rows·panel to sums: in (at most 4) rows of kn elements,
// element r,p at rows[p*4+r], kn rows of jn elements, element p,j at
// panel[p*stride+j], and in rows of jn sums. It keeps 2 by 4 sums in registers.
// The conversions to T forbid the compiler to fuse a product with its addition,
// which arm64 would do.
func portableBlock[T Float](in, jn, kn int, rows, panel []T, stride int, sums []T) {
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
