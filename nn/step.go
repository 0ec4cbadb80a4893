package nn

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Step places a program's tokens in their sequences. The zero Step, and a nil one passed to layers, stands for
// whole sequences from their first tokens, without states.
type Step struct {
	// Start i32[B] holds the position of each sequence's first token in this step; nil means 0.
	Start *graph.Value
	// Room is the capacity of a sequence's states, in positions; 0 means that there are no states, and Start must be
	// nil. The states hold the tokens preceding Start. Each of the B sequences has its own states, so a step can
	// process any subset of the sequences.
	Room int
	// Length i32[B] holds the length of each sequence's text, of which the step may process a part. If Length is nil,
	// each text ends with the step's tokens. A RoPE with Original depends on it.
	Length *graph.Value
	// Last requests the logits of the last token only.
	Last bool
	// Queries is the number of final tokens for which layers return results; 0 means all. All tokens still go to the
	// states. A model sets it before its last layer.
	Queries int
	// Cache is the element type of caches of keys and values; zero means the computation type.
	Cache graph.DType
	// At i32[B,S] holds the positions of the tokens; nil means 0, 1 and so on. Bias, [B or 1,N or 1,S,S], is added to
	// attention scores, such as data.Apart; nil means none. Both are for steps without states.
	At, Bias *graph.Value

	states    []State
	positions *graph.Value
}

// State is a layer's memory of a sequence between steps: a program input donated to a result. It is zeros before the
// first token.
type State struct {
	Kind     StateKind
	Sequence int    // index in the step's batch
	Name     string // identifies the state within its sequence, such as model.layers.0.self_attn.keys
	// Place lists the mesh axes splitting the state's dimensions, in the form of Param.Place.
	Place   []string
	In, Out *graph.Value
}

// StateKind is the way in which a state depends on a sequence's tokens.
type StateKind uint8

const (
	// ByPosition: row p of dimension 1 depends on the tokens up to position p only. A copy of the first n rows is the
	// state of the first n tokens.
	ByPosition StateKind = iota
	// Carried: every step replaces the state, which depends on all tokens. An earlier one cannot be had from it.
	Carried
)

// States returns the states of all layers applied so far. Their Out values are program results, which alias the
// inputs if given to gomoe.Config.Donate.
func (st *Step) States() []State { return st.states }

// input declares a state of sequence b, and returns the input.
func (st *Step) input(s *Scope, b int, name string, kind StateKind, t graph.Type, place []string) *graph.Value {
	graph.Helper()
	x := State{Kind: kind, Sequence: b, Name: s.name + name, Place: place, In: s.t.Input(fmt.Sprintf("%s%s.%d", s.name, name, b), t.DType, t.Shape...)}
	st.states = append(st.states, x)
	return x.In
}

// result sets the result of a declared state.
func (st *Step) result(state int, out *graph.Value) {
	x := &st.states[state]
	x.Out = out.Named(x.In.Name + ".next")
}

// Carry is a state that a layer carries from token to token, such as that of a recurrence.
type Carry struct {
	Name  string
	Type  graph.Type // for one sequence, [1,..]
	Place []string   // as in State
}

// Carry applies a layer to tokens, values [B,S,..], given the carried states, and returns its result [B,S,..]. The
// layer returns the next states along with its result. Without states in the step, it is applied once, to all
// sequences and with nil states, which stand for zeros. Otherwise it is applied to each sequence.
func (st *Step) Carry(s *Scope, states []Carry, layer func(x, states []*graph.Value) (y *graph.Value, next []*graph.Value), x ...*graph.Value) *graph.Value {
	graph.Helper()
	if st == nil || st.Room == 0 {
		y, _ := layer(x, make([]*graph.Value, len(states)))
		return y
	}
	all := make([]*graph.Value, x[0].Dim(0))
	for b := range all {
		one, in := make([]*graph.Value, len(x)), make([]*graph.Value, len(states))
		for i, x := range x {
			one[i] = primitives.SliceInDim(x, 0, b, b+1)
		}
		for i, c := range states {
			in[i] = st.input(s, b, c.Name, Carried, c.Type, c.Place)
		}
		var next []*graph.Value
		all[b], next = layer(one, in)
		for i, out := range next {
			st.result(len(st.states)-len(states)+i, out)
		}
	}
	return primitives.Concatenate(0, all...)
}

// Positions returns the positions of the tokens of x[B,S,..], or nil if they are 0, 1 and so on.
func (st *Step) Positions(x *graph.Value) *graph.Value {
	if st == nil {
		return nil
	}
	if st.Start == nil {
		return st.At
	}
	if st.positions == nil {
		b, s := x.Dim(0), x.Dim(1)
		st.positions = primitives.Add(primitives.BroadcastInDim(st.Start, []int{b, s}, 0), primitives.Iota(x.Tracer(), graph.I32, 1, b, s))
	}
	return st.positions
}

// lengths returns the lengths of the texts in x[B,S,..]: n tokens or, if each is not nil, each i32[B]. With caches,
// n is an upper bound of each.
func (st *Step) lengths(x *graph.Value) (n int, each *graph.Value) {
	switch b, s := x.Dim(0), x.Dim(1); {
	case st == nil, st.Room == 0 && st.At == nil:
		return s, nil
	case st.Room == 0:
		return s, primitives.AddScalar(primitives.ReduceMax(st.At, 1), 1)
	case st.Length != nil:
		return st.Room, st.Length
	default:
		return st.Room, primitives.Add(st.Start, primitives.Full(x.Tracer(), float64(s), graph.I32, b))
	}
}

// Tail returns the tokens of x[B,S,..] for which layers return results: the last Queries ones. A nil x gives nil.
func (st *Step) Tail(x *graph.Value) *graph.Value {
	if st == nil || x == nil || st.Queries == 0 || st.Queries == x.Dim(1) {
		return x
	}
	return primitives.SliceInDim(x, 1, x.Dim(1)-st.Queries, x.Dim(1))
}

// attend returns the attention of the last Q tokens, q[B,Q,N,D], to k[B,S,M,D], v[B,S,M,V] and each sequence's
// caches, as [B,Q,N,V]. It writes k and v to the caches, or to a single cache if they are the same value. place lists
// the mesh axes splitting the caches.
func (st *Step) attend(s *Scope, q, k, v *graph.Value, p primitives.AttentionParams, place ...string) *graph.Value {
	graph.Helper()
	if st == nil {
		st = &Step{}
	}
	if st.Room == 0 {
		p.Bias = st.Bias
		y, _ := primitives.Attention(q, k, v, p)
		return y
	}
	batch, tokens := q.Dim(0), k.Dim(1)
	all := make([]*graph.Value, batch)
	for b := range batch {
		one := func(x *graph.Value) *graph.Value { return primitives.SliceInDim(x, 0, b, b+1) }
		start := one(st.Start)
		p.Lengths = primitives.Add(start, primitives.Full(s.t, float64(tokens), graph.I32, 1))
		keys := st.keep(s, b, "keys", one(k), start, place)
		values := keys
		if v != k {
			values = st.keep(s, b, "values", one(v), start, place)
		}
		all[b], _ = primitives.Attention(one(q), keys, values, p)
	}
	return primitives.Concatenate(0, all...)
}

// keep writes x[1,S,N,D] at start to the named cache of sequence b, and returns the whole cache.
func (st *Step) keep(s *Scope, b int, name string, x, start *graph.Value, place []string) *graph.Value {
	graph.Helper()
	d := st.Cache
	if d == graph.NoDType {
		d = s.DType()
	}
	in := st.input(s, b, name, ByPosition, graph.T(d, 1, st.Room, x.Dim(2), x.Dim(3)), place)
	out := primitives.CacheUpdate(in, x, start)
	st.result(len(st.states)-1, out)
	return out
}
