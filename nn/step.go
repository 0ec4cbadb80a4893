package nn

import (
	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// Step is where the tokens of a program stand in their sequences. The zero Step is a whole sequence from its
// first token on, without caches.
type Step struct {
	// Start i32[B] is the position of each sequence's first token in this step; nil means 0.
	Start *graph.Value
	// Room is how many positions the caches of keys and values have; 0 means that there are no caches, and
	// then Start is nil. The caches hold what comes before Start.
	Room int
	// Last asks for the logits of the last token alone.
	Last bool
	// Cache is the element type of the caches; zero means the one to calculate in.
	Cache graph.DType

	caches    []Cache
	positions *graph.Value
}

// Cache is a cache of the program: an input that is donated to a result.
type Cache struct{ In, Out *graph.Value }

// Caches returns the caches of all layers that have been applied. Their results are those of the program, and
// gomoe.Config.Donate gives each the input's memory.
func (st *Step) Caches() []Cache { return st.caches }

// Positions returns the positions of x[B,S,..]'s tokens, nil if they are 0, 1 and so on.
func (st *Step) Positions(x *graph.Value) *graph.Value {
	if st.Start == nil {
		return nil
	}
	if st.positions == nil {
		b, s := x.Dim(0), x.Dim(1)
		st.positions = pr.Add(pr.BroadcastInDim(st.Start, []int{b, s}, 0), pr.Iota(x.Tracer(), graph.I32, 1, b, s))
	}
	return st.positions
}

// keep writes x[B,S,N,D] to a cache of the scope at Start, and returns all of the cache.
func (st *Step) keep(s *Scope, name string, x *graph.Value) *graph.Value {
	graph.Helper()
	d := st.Cache
	if d == graph.NoDType {
		d = s.DType()
	}
	in := s.t.Input(s.name+name, d, x.Dim(0), st.Room, x.Dim(2), x.Dim(3))
	out := pr.CacheUpdate(in, x, st.Start).Named(s.name + name + ".next")
	st.caches = append(st.caches, Cache{in, out})
	return out
}
