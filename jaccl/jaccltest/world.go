package jaccltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// WorldConformance runs what of the suite is about all ranks of a job, for a transport
// that has no other groups, with those operations for which has returns true; far is how
// many ranks further a send or send_recv carries, 1 to size, and 0 of other operations.
// Sums of floats are exact, as such a transport need not add in the order of ranks.
//
// The rest of the suite takes groups, or that ranks compare what they call.
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
