// Command asm writes the assembly for amd64 of the packages below internal/kernel, and of
// internal/half, one file for each -set. Run it by `make generated`; the results are committed.
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
	sets := map[string]func(){
		"gemm": gemm, "half": half, "pack": pack, "convert": convert, "blocks": quant, "direct": direct, "strips": strips, "loops": vector, "math": mathLoops,
		"lines": lineLoops, "random": random, "recurrence": recurrence, "attention": attention, "norm": norm, "softmax": softmax,
	}
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

// gemm writes the tiles and streams of products of f32 and f64. Products of f64 are for checking
// gradients, and AVX2 is fast enough for them.
func gemm() {
	for _, s := range []set{
		{"avx512", "F32", 4, true, 8, 4, nil, ""}, {"avx2", "F32", 4, false, 4, 2, nil, ""}, {"avx2", "F64", 8, false, 4, 2, nil, ""},
	} {
		for rows := 1; rows <= s.rows; rows = max(4, 2*rows) {
			for vecs := 1; vecs <= 3; vecs++ {
				s.tile(rows, vecs, false)
			}
		}
		s.tile(s.rows, 3, true)
		s.stream(1, 4)
		s.stream(2, 4)
		s.stream(4, s.streamDeep)
		if s.element == "F32" {
			s.dots()
		}
	}
}

// pack writes loops copying rows contiguously, or transposed.
func pack() {
	for _, bytes := range []int{16, 32, 64, 96, 128, 192} {
		copyRows(bytes)
	}
	transpose16F32()
	transpose8F32()
	transpose4F32()
	transpose4F64()
}

// vector writes the loops over float32 of type loop in package vector.
func vector() {
	var table constants
	set{name: "avx512", size: 4, wide: true, table: &table}.vectors()
	set{name: "avx2", size: 4, table: &table}.vectors()
	table.write()
}

// attention writes the products and loops of attention in float32.
func attention() {
	var table constants
	set{name: "avx512", size: 4, wide: true, rows: 8, table: &table}.attention()
	set{name: "avx2", size: 4, rows: 4, table: &table}.attention()
	table.write()
	laneNumbers()
}

// norm writes the loops over rows for normalization and rotation.
func norm() {
	set{name: "avx512", size: 4, wide: true}.norms()
	set{name: "avx2", size: 4}.norms()
}

// mathLoops writes arithmetic and functions of float32.
func mathLoops() {
	inLanes(func(s lanes) {
		s.arithmetic()
		s.functions()
	})
}

// random writes the loops making random bits and numbers.
func random() {
	inLanes(func(s lanes) {
		s.threefry()
		s.uniform()
		s.erfinv()
		s.roundBrain()
	})
	countFrom()
}

// softmax writes loops over rows of float32 computing in float64: a router's scores, and gradients
// of softmax.
func softmax() {
	inLanes(func(s lanes) {
		s.scores()
		s.softmaxGrads()
	})
}

// lineLoops writes reductions, and loops with a result or an argument other than float32.
func lineLoops() {
	inLanes(func(s lanes) {
		s.reductions()
		s.logic()
	})
}

// inLanes writes the functions for both instruction sets, followed by their constants.
func inLanes(functions func(s lanes)) {
	var table constants
	var wide doubles
	functions(lanes{set: set{name: "avx512", size: 4, wide: true, table: &table}, doubles: &wide})
	functions(lanes{set: set{name: "avx2", size: 4, table: &table}, doubles: &wide})
	tailMasks()
	wide.write()
	table.write()
}
