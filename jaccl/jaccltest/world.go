package jaccltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// WorldConformance runs the part of Conformance that uses only the group of all ranks,
// for a transport without other groups. It runs the operations for which has returns
// true. far is the distance in ranks of a send or send_recv, up to size, and 0 for other
// operations. The inputs are such that sums of floats are exact, because such a transport
// need not add in the order of ranks.
//
// The rest of Conformance needs other groups, or ranks comparing their calls.
func WorldConformance(t *testing.T, open func(t *testing.T, n int) []jaccl.Communicator, has func(name string, d graph.DType, far, size int) bool) {
	s := suite{open}
	run := func(t *testing.T, n int, ops []op) {
		ops = slices.DeleteFunc(ops, func(o op) bool {
			far := 0
			switch o.name {
			case "send_recv":
				far = o.shift(n)
			case "send":
				far = (o.far(n) - o.root(n) + n) % n
			}
			return !has(o.name, o.d, far, n)
		})
		if len(ops) == 0 {
			t.Fatal("there is no operation")
		}
		for i := range ops {
			ops[i].exact = true
		}
		ts := trials(n, ops)
		all(t, s.start(t, n), func(c jaccl.Communicator) error { return playIn(background(), c, c.World(), world(n), ts) })
	}
	t.Run("Ranks", s.ranks)
	t.Run("Types", func(t *testing.T) {
		for _, n := range sizes() {
			t.Run(fmt.Sprint(n), func(t *testing.T) { run(t, n, everything()) })
		}
	})
	t.Run("BackToBack", func(t *testing.T) { run(t, 4, alternating(400)) })
	t.Run("Large", func(t *testing.T) {
		for n, ops := range large() {
			run(t, n, ops)
		}
	})
}
