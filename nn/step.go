package nn

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// Step is where the tokens of a program stand in their sequences. The zero Step, and nil for layers, is a whole sequence from its
// first token on, without caches.
type Step struct {
	// Start i32[B] is the position of each sequence's first token in this step; nil means 0.
	Start *graph.Value
	// Room is how many positions the caches of keys and values have; 0 means that there are no caches, and
	// then Start is nil. The caches hold what comes before Start. Each of the B sequences has caches of its own,
	// so that the sequences of one step may be any of those that there are.
	Room int
	// Length i32[B] is the length of each sequence's text, of which the step's tokens may be a part; nil means that they end it. A
	// RoPE with Original depends on it.
	Length *graph.Value
	// Last asks for the logits of the last token alone.
	Last bool
	// Queries is how many of the last tokens the results of layers are for, of which all tokens go to the caches; 0 means all.
	// A model sets it before its last layer.
	Queries int
	// Cache is the element type of the caches; zero means the one to calculate in.
	Cache graph.DType
	// At i32[B,S] are the positions of the tokens, nil for 0, 1 and so on; and Bias [B or 1,N or 1,S,S] is added to the scores of
	// attention, such as data.Apart, nil for nothing. They are for steps without caches.
	At, Bias *graph.Value

	caches    []Cache
	positions *graph.Value
}

// Cache is a cache of the program: an input that is donated to a result.
type Cache struct {
	Sequence int    // of the step's batch
	Name     string // which of a sequence's caches it is, such as model.layers.0.self_attn.keys
	In, Out  *graph.Value
}

// Caches returns the caches of all layers that have been applied. Their results are those of the program, and
// gomoe.Config.Donate gives each the input's memory.
func (st *Step) Caches() []Cache { return st.caches }

// Positions returns the positions of x[B,S,..]'s tokens, nil if they are 0, 1 and so on.
func (st *Step) Positions(x *graph.Value) *graph.Value {
	if st == nil {
		return nil
	}
	if st.Start == nil {
		return st.At
	}
	if st.positions == nil {
		b, s := x.Dim(0), x.Dim(1)
		st.positions = pr.Add(pr.BroadcastInDim(st.Start, []int{b, s}, 0), pr.Iota(x.Tracer(), graph.I32, 1, b, s))
	}
	return st.positions
}

// lengths returns how long the texts of x[B,S,..] are: n tokens or, if each is not nil, each i32[B]. With caches n is an upper bound of
// each.
func (st *Step) lengths(x *graph.Value) (n int, each *graph.Value) {
	switch b, s := x.Dim(0), x.Dim(1); {
	case st == nil, st.Room == 0 && st.At == nil:
		return s, nil
	case st.Room == 0:
		return s, pr.AddScalar(pr.ReduceMax(st.At, 1), 1)
	case st.Length != nil:
		return st.Room, st.Length
	default:
		return st.Room, pr.Add(st.Start, pr.Full(x.Tracer(), float64(s), graph.I32, b))
	}
}

// Tail returns those of x[B,S,..] that layers have results for, nil for nil.
func (st *Step) Tail(x *graph.Value) *graph.Value {
	if st == nil || x == nil || st.Queries == 0 || st.Queries == x.Dim(1) {
		return x
	}
	return pr.SliceInDim(x, 1, x.Dim(1)-st.Queries, x.Dim(1))
}

// attend returns the attention of q[B,Q,N,D], of the last Q tokens, to k[B,S,M,D] and v[B,S,M,V], and to what the caches
// hold of each sequence, as [B,Q,N,V]. It writes k and v to the caches, to one cache if they are one value.
func (st *Step) attend(s *Scope, q, k, v *graph.Value, p pr.AttentionParams) *graph.Value {
	graph.Helper()
	if st == nil {
		st = &Step{}
	}
	if st.Room == 0 {
		p.Bias = st.Bias
		y, _ := pr.Attention(q, k, v, p)
		return y
	}
	batch, tokens := q.Dim(0), k.Dim(1)
	all := make([]*graph.Value, batch)
	for b := range batch {
		one := func(x *graph.Value) *graph.Value { return pr.SliceInDim(x, 0, b, b+1) }
		start := one(st.Start)
		p.Lengths = pr.Add(start, pr.Full(s.t, float64(tokens), graph.I32, 1))
		keys := st.keep(s, b, "keys", one(k), start)
		values := keys
		if v != k {
			values = st.keep(s, b, "values", one(v), start)
		}
		all[b], _ = pr.Attention(one(q), keys, values, p)
	}
	return pr.Concatenate(0, all...)
}

// keep writes x[1,S,N,D] to a cache of the scope and of sequence b at start, and returns all of the cache.
func (st *Step) keep(s *Scope, b int, name string, x, start *graph.Value) *graph.Value {
	graph.Helper()
	d := st.Cache
	if d == graph.NoDType {
		d = s.DType()
	}
	name = s.name + name
	in := s.t.Input(fmt.Sprintf("%s.%d", name, b), d, 1, st.Room, x.Dim(2), x.Dim(3))
	out := pr.CacheUpdate(in, x, start).Named(fmt.Sprintf("%s.%d.next", name, b))
	st.caches = append(st.caches, Cache{b, name, in, out})
	return out
}
