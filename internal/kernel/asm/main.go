// Command asm writes the assembly for amd64 of the packages below internal/kernel, and of
// internal/half, one file for each -set. Run it by `make generated`; the results are
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
	sets := map[string]func(){
		"gemm": gemm, "half": half, "pack": pack, "convert": convert, "blocks": quant, "loops": vector, "math": mathLoops,
		"lines": lineLoops, "random": random, "attention": attention, "norm": norm, "softmax": softmax,
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

// gemm is the tiles and streams of products of f32 and f64. Products of f64 check gradients,
// and AVX2 is fast enough for that.
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
	}
}

// pack is copies that lay rows side by side, or as columns.
func pack() {
	for _, bytes := range []int{16, 32, 64, 96, 128, 192} {
		copyRows(bytes)
	}
	transpose16F32()
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

// attention is the products and loops of attention in float32.
func attention() {
	var table constants
	set{name: "avx512", size: 4, wide: true, rows: 8, table: &table}.attention()
	set{name: "avx2", size: 4, rows: 4, table: &table}.attention()
	table.write()
	laneNumbers()
}

// norm is the loops over rows that are normalised or turned.
func norm() {
	set{name: "avx512", size: 4, wide: true}.norms()
	set{name: "avx2", size: 4}.norms()
}

// mathLoops is functions of float32.
func mathLoops() {
	inLanes(func(s lanes) {
		s.arithmetic()
		s.functions()
	})
}

// random is random bits and numbers.
func random() {
	inLanes(func(s lanes) {
		s.threefry()
		s.uniform()
		s.erfinv()
	})
	countFrom()
}

// softmax is what is done with rows of float32 in float64: a router's scores, and
// gradients of softmax.
func softmax() {
	inLanes(func(s lanes) {
		s.scores()
		s.softmaxGrads()
	})
}

// lineLoops is reductions, and what has other than float32 on one side.
func lineLoops() {
	inLanes(func(s lanes) {
		s.reductions()
		s.logic()
	})
}

// inLanes does the functions of both instruction sets, and then their constants.
func inLanes(functions func(s lanes)) {
	var table constants
	var wide doubles
	functions(lanes{set: set{name: "avx512", size: 4, wide: true, table: &table}, doubles: &wide})
	functions(lanes{set: set{name: "avx2", size: 4, table: &table}, doubles: &wide})
	tailMasks()
	wide.write()
	table.write()
}
