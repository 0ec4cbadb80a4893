package primitives

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// A tile has the elements of the matrix, wherever it begins and ends inside of groups and
// words. Pieces of work begin at multiples of 4 elements.
func TestAffineTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const experts, n, k, group = 2, 3, 192, 32
	for _, bits := range []int{4, 8} {
		tiles := affineTiles[float32]{affine: affine{bits, group}, n: n, k: k, w: make([]uint32, experts*n*k*bits/32)}
		for i := range tiles.w {
			tiles.w[i] = r.Uint32()
		}
		tiles.scales, tiles.biases = array.New(graph.T(graph.F32, experts, n, k/group)), array.New(graph.T(graph.F32, experts, n, k/group))
		for i := range experts * n * k / group {
			array.Data[float32](tiles.scales)[i], array.Data[float32](tiles.biases)[i] = r.Float32(), r.Float32()
		}
		for range 300 {
			e, r0, c0 := r.IntN(experts), r.IntN(n), r.IntN(k)
			r1, c1 := r0+1+r.IntN(n-r0), c0+1+r.IntN(k-c0)
			tile := make([]float32, (r1-r0)*(c1-c0))
			tiles.decode(tile, e, r0, r1, c0, c1)
			for i, got := range tile {
				at := (e*n+r0+i/(c1-c0))*k + c0 + i%(c1-c0)
				q := tiles.w[at*bits/32] >> (at * bits % 32) & (1<<bits - 1)
				product := float32(float32(q) * array.Data[float32](tiles.scales)[at/group])
				if want := product + array.Data[float32](tiles.biases)[at/group]; got != want {
					t.Fatalf("%d bits, rows %d to %d, columns %d to %d: element %d is %v, want %v", bits, r0, r1, c0, c1, i, got, want)
				}
			}
		}
	}
}
