// Command asm writes the assembly of matrix products, with weights in blocks too, and of loops over vectors, one
// file for each -set. Run it by `go generate` in internal/kernel; the results are
// committed.
package main

import (
	"flag"
	"log"
	"maps"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	sets := map[string]func(){"gemm": gemm, "vector": vector, "quant": quant}
	names := strings.Join(slices.Sorted(maps.Keys(sets)), " or ")
	name := flag.String("set", "", "what to write: "+names)
	flag.Parse()
	write, ok := sets[*name]
	if !ok {
		log.Fatalf("asm: -set %q, want %s", *name, names)
	}
	write()
	Generate()
}

// gemm is the tiles, streams and copies of products of f32 and f64.
func gemm() {
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
	for _, bytes := range []int{16, 32, 64, 96, 128, 192} {
		copyRows(bytes)
	}
	transpose8F32()
	transpose4F32()
	transpose4F64()
}

// vector is the loops over float32.
func vector() {
	var table constants
	set{name: "avx512", size: 4, wide: true, table: &table}.vectors()
	set{name: "avx2", size: 4, table: &table}.vectors()
	table.write()
}
