package kernels_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// checkWhole is check for tokens that are whole over ep.
func (l layer) checkWhole(t *testing.T, mesh string, in map[string]array.Array) {
	names := here
	if l.Exchange == ep.Rows {
		names = append([]string{"ep_spread"}, here...)
	}
	compare(t, l.program(t), wholeOn(t, mesh, "x", "w", "ids"), in, names...)
}

// wholeOn is tokensOn for tokens that are whole over ep.
func wholeOn(t *testing.T, mesh string, names ...string) gomoe.Config {
	cfg := tokensOn(t, mesh, names...)
	for _, s := range cfg.Place {
		s.Dims[0] = slices.DeleteFunc(s.Dims[0], func(a string) bool { return a == "ep" })
	}
	return cfg
}

// Each rank makes and adds the rows of its own experts as the host does, whatever tokens
// choose.
func TestRoutedWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	cuts := [][2]int{{0, 0}, {1 << 40, 8}, {3, 1}, {5, 4}} // capacity and alignment
	for i, name := range slices.Sorted(maps.Keys(choices)) {
		for j, mesh := range []string{"ep=2", "ep=2,dp=2"} {
			cut, exchange := cuts[(i+j)%len(cuts)], []ep.Exchange{ep.Rows, ep.Sum}[(i/2+j)%2]
			l := layer{primitives.PrepareOp{Experts: 11, Capacity: cut[0], Align: cut[1], Exchange: exchange}, 19, 3, 5, graph.F32, graph.F32, graph.I32}
			t.Run(fmt.Sprint(name, " mesh ", mesh, " ", cut, " ", exchange), func(t *testing.T) { l.checkWhole(t, mesh, l.inputs(r, choices[name])) })
		}
	}
}

// Rows of every type beside weights of every type, and sums that travel in every type.
func TestRoutedWholePayloads(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	floats := []graph.DType{graph.F32, graph.BF16, graph.F16}
	sizes, n := []int{1, 8, 31, 100, 33}, 0
	for _, d := range floats {
		for i, w := range floats {
			for _, exchange := range []ep.Exchange{ep.Rows, ep.Sum} {
				op := primitives.PrepareOp{Experts: 4, Align: 2, Exchange: exchange}
				if exchange == ep.Sum {
					op.Wire = []graph.DType{graph.NoDType, graph.BF16, graph.F16}[i]
				}
				l := layer{op, 5, 2, sizes[n%len(sizes)], d, w, graph.I64}
				n++
				t.Run(fmt.Sprint(d, w, l.hidden, exchange, op.Wire), func(t *testing.T) { l.checkWhole(t, "ep=2", l.inputs(r, choices["or nowhere"])) })
			}
		}
	}
}

// From one token to so many pairs that they are cut into segments, and more than 512
// experts.
func TestRoutedWholeSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	for i, s := range [][3]int{{0, 2, 4}, {1, 1, 2}, {1, 8, 512}, {7, 3, 1}, {513, 1, 15}, {170, 6, 600}} {
		exchange := []ep.Exchange{ep.Rows, ep.Sum}[i%2]
		l := layer{primitives.PrepareOp{Experts: s[2], Align: 2, Exchange: exchange, Capacity: 3 * s[0] * s[1] / s[2]}, s[0], s[1], 2, graph.F32, graph.F32, graph.I32}
		t.Run(fmt.Sprint(s, exchange), func(t *testing.T) { l.checkWhole(t, "ep=2", l.inputs(r, choices["or nowhere"])) })
	}
}
