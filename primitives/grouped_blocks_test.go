package primitives

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// However the work is cut, every row of weights of an expert with tokens is taken once,
// with all of the expert's tokens, from the beginning of its zone on.
func TestWeightZones(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		z := weightRowWork{make([]int32, 1+r.IntN(6)), r.IntN(4), 1 + r.IntN(40)}
		starts, at, end := make([]int, len(z.counts)), 0, 0
		for e := range z.counts {
			z.counts[e] = int32(max(0, r.IntN(8)-2))
			starts[e] = at
			if z.counts[e] > 0 {
				end = at + int(z.counts[e])
			}
			at = roundUp(at+int(z.counts[e]), z.align)
		}
		if z.end() != end {
			t.Fatalf("%v: rows end at %d, want %d", z, z.end(), end)
		}
		taken := make([][]int, len(z.counts))
		for e := range taken {
			taken[e] = make([]int, z.f)
		}
		cuts := []int{0, z.work()}
		for range r.IntN(6) {
			cuts = append(cuts, r.IntN(z.work()+1))
		}
		slices.Sort(cuts)
		for i := range cuts[1:] {
			z.each(cuts[i], cuts[i+1], func(e, start, count, from, to int) {
				if start != starts[e] || count != int(z.counts[e]) {
					t.Fatalf("%v: %d rows of expert %d from %d, want %d from %d", z, count, e, start, z.counts[e], starts[e])
				}
				for j := from; j < to; j++ {
					taken[e][j]++
				}
			})
		}
		for e, rows := range taken {
			for j, n := range rows {
				if want := min(int(z.counts[e]), 1); n != want {
					t.Fatalf("%v cut at %v: row %d of expert %d is taken %d times, want %d", z, cuts, j, e, n, want)
				}
			}
		}
	}
}

// Work that is cut among threads has the same bits as work that is not.
func TestGroupedBlocksThreads(t *testing.T) {
	const experts, h, f = 3, 2048, 3000
	r := rand.New(rand.NewPCG(3, 4))
	w := array.New(graph.T(graph.Q8_0, experts, f, h))
	for i := range w.Bytes() {
		w.Bytes()[i] = byte(r.Uint32())
	}
	for i := 1; i < len(w.Bytes()); i += 34 {
		w.Bytes()[i] = 0x20 // the scale is a finite number
	}
	counts := []int32{2, 0, 5}
	x := array.New(graph.T(graph.F32, 12, h))
	for i := range array.Data[float32](x) {
		array.Data[float32](x)[i] = float32(r.NormFloat64())
	}
	n, err := array.Of(counts, len(counts))
	if err != nil {
		t.Fatal(err)
	}
	run := func(threads int, joined bool) []float32 {
		y := array.New(graph.T(graph.F32, 12, f))
		a := &exec.Args{In: []array.Array{x, w, n}, Out: []array.Array{y}, Threads: threads}
		kernel := groupedBlocks(true, 4)
		if joined {
			a.In, kernel = []array.Array{x, w, w, n}, groupedSwiGLUBlocks(4)
		}
		if a.Alone(weightRowWork{counts, 4, f}.work(), 1+quantGrain/(1+h)) != (threads == 1) {
			t.Fatal("the work is not large enough to be cut")
		}
		if err := kernel(a); err != nil {
			t.Fatal(err)
		}
		return array.Data[float32](y)
	}
	for _, joined := range []bool{false, true} {
		one := run(1, joined)
		for _, threads := range []int{2, 3} {
			if !slices.Equal(run(threads, joined), one) {
				t.Errorf("joined %v: %d threads give other bits than one", joined, threads)
			}
		}
	}
}
