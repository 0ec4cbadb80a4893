// Command asm writes the assembly of matrix products and of loops over vectors. Run it by `go generate` in
// internal/kernel; the result is committed.
package main

import . "github.com/mmcloughlin/avo/build"

func main() {
	for _, s := range []set{
		{"avx512", "F32", 4, true, 8, 4, nil}, {"avx512", "F64", 8, true, 8, 4, nil},
		{"avx2", "F32", 4, false, 4, 2, nil}, {"avx2", "F64", 8, false, 4, 2, nil},
	} {
		for rows := 1; rows <= s.rows; rows = max(4, 2*rows) {
			for vecs := 1; vecs <= 3; vecs++ {
				s.tile(rows, vecs)
			}
		}
		s.stream(1, 4)
		s.stream(2, 4)
		s.stream(4, s.streamDeep)
	}
	var table constants
	set{name: "avx512", size: 4, wide: true, table: &table}.vectors()
	set{name: "avx2", size: 4, table: &table}.vectors()
	table.write()
	for _, bytes := range []int{16, 32, 64, 96, 128, 192} {
		copyRows(bytes)
	}
	transpose8F32()
	transpose4F32()
	transpose4F64()
	Generate()
}
