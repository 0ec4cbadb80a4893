package generate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
)

// slot holds the states of a sequence.
type slot struct {
	states    map[string]*runtime.Array
	snapshots []snapshot // of the carried states; none if there are none
	seen      []int32    // tokens in the states
	plain     int        // length of their prefix computed with positions independent of the text's length
	user      *sequence
	used      int // number of the last step using the slot
}

// snapshot is a copy of the carried states after a number of tokens; 0 means that it is free.
type snapshot struct {
	tokens int
	states map[string]*runtime.Array // nil before its first use
}

// keeps returns how many of the slot's tokens match the beginning of window, without its last token. If
// positions depend on the length of texts exceeding grows tokens, such texts share none; 0 means that they never
// do.
func (x *slot) keeps(window []int32, grows int) int {
	n := commonPrefix(x.seen, window[:len(window)-1])
	switch {
	case grows == 0:
		return n
	case len(window) > grows:
		return 0
	}
	return min(n, x.plain)
}

// sees records tokens, of a text with the given length, as in the states.
func (x *slot) sees(tokens []int32, length, grows int) {
	if x.plain == len(x.seen) && (grows == 0 || length <= grows) {
		x.plain += len(tokens)
	}
	x.seen = append(x.seen, tokens...)
}

// forget keeps only the first n tokens in the states.
func (x *slot) forget(n int) {
	x.seen, x.plain = x.seen[:n], min(x.plain, n)
	for i := range x.snapshots {
		if x.snapshots[i].tokens > n {
			x.snapshots[i].tokens = 0
		}
	}
}

// from returns the largest number of tokens, at most n, from which the slot's states can be continued, and where its
// carried states are: in a snapshot, or live or empty.
func (x *slot) from(n int) (tokens, carried int) {
	if len(x.snapshots) == 0 || n == len(x.seen) {
		return n, live
	}
	carried = empty
	for i, s := range x.snapshots {
		if s.tokens > tokens && s.tokens <= n {
			tokens, carried = s.tokens, i
		}
	}
	return tokens, carried
}

// Places of carried states other than a snapshot.
const (
	live  = -1 // in the slot's states
	empty = -2 // before the first token
)

// order is a command that all processes execute at the same time. The first process issues the orders.
type order struct {
	kind kind
	// slots are the slots of a step's sequences, or the source and the destination of a copy, or the slot of a snapshot.
	slots []int32
	// start is the position of each sequence's first token. For a copy, it is the number of positions to copy, and the
	// place of the source's carried states; for a snapshot, its index and 0.
	start []int32
	// length is the current length of each sequence, including tokens after the step's; nil for copies and snapshots.
	length []int32
	ids    []int32 // tokens of the first sequence, then of the second, and so on, with equal numbers
}

type kind int32

const (
	idle kind = iota // checks that all processes are alive, and whether they were asked to stop
	step             // a step without logits, within a prompt
	last             // a step returning the logits of the last tokens
	copied
	saved // a snapshot of a slot's carried states
	end
	scored // a step of one sequence returning the logits of all its tokens
)

// run executes an order in this process, and returns the requested logits.
func (g *Generator) run(ctx context.Context, o order) (logits []float32, err error) {
	switch o.kind {
	case copied:
		return nil, g.copyStates(g.slots[o.slots[0]], g.slots[o.slots[1]], int(o.start[0]), int(o.start[1]))
	case saved:
		return nil, g.saveStates(g.slots[o.slots[0]], int(o.start[0]))
	case step, last, scored:
	default:
		return nil, nil
	}
	n := len(o.slots)
	at := shape{n, len(o.ids) / n, o.kind == scored}
	compiling := ctx
	if g.peers == nil { // otherwise the others wait for this process within the step
		compiling = g.open
	}
	job, err := g.job(compiling, at)
	if err != nil {
		return nil, err
	}
	tokens, err := array.Of(o.ids, n, at.tokens)
	if err != nil {
		return nil, err
	}
	start, err := array.Of(o.start, n)
	if err != nil {
		return nil, err
	}
	args := g.args[at]
	if args == nil {
		args = &arguments{maps.Clone(g.in), make([]*runtime.Array, len(job.Plan().Out))}
		g.args[at] = args
	}
	if args.in["tokens"], err = job.Put("tokens", tokens); err != nil {
		return nil, err
	}
	if args.in["start"], err = job.Put("start", start); err != nil {
		return nil, err
	}
	if g.grows() {
		length, err := array.Of(o.length, n)
		if err != nil {
			return nil, err
		}
		if args.in["length"], err = job.Put("length", length); err != nil {
			return nil, err
		}
		defer job.Recycle(args.in["length"])
	}
	for i, x := range g.states[at] { // the step updates them in place
		state := g.slots[o.slots[x.Sequence]].states[x.Name]
		args.in[x.In.Name], args.out[1+i] = state, state
	}
	if err := job.RunInto(ctx, args.in, args.out); err != nil {
		return nil, err
	}
	switch {
	case o.kind != last && o.kind != scored:
	case job.Plan().Mesh.Ranks() == 1: // valid until the next step overwrites them
		parts, err := args.out[0].Parts()
		if err != nil {
			return nil, err
		}
		logits = array.Data[float32](parts[0].Array)
	default:
		a, err := job.Get(ctx, args.out[0])
		if err != nil {
			return nil, err
		}
		logits = array.Data[float32](a)
	}
	job.Recycle(args.in["tokens"], args.in["start"])
	return logits, nil
}

// arguments are the inputs and results of the steps of a shape, bound once.
type arguments struct {
	in  map[string]*runtime.Array
	out []*runtime.Array // logits, followed by states
}

// emptyStates returns states of a sequence that are zeros.
func (g *Generator) emptyStates(of func(nn.State) bool) (map[string]*runtime.Array, error) {
	one, all := shape{1, 1, false}, map[string]*runtime.Array{}
	for _, x := range g.states[one] {
		if !of(x) {
			continue
		}
		a, err := g.jobs[one].PutParts(x.In.Name, func(p runtime.Part) error { clear(p.Bytes()); return nil })
		if err != nil {
			return nil, err
		}
		all[x.Name] = a
	}
	return all, nil
}

func carried(x nn.State) bool { return x.Kind == nn.Carried }

// snapshots returns the number of snapshots of a sequence: one every so many positions, those at the ends of this prompt
// and of the one before, and one before a step with guesses.
func (g *Generator) snapshots() int {
	if !slices.ContainsFunc(g.states[shape{1, 1, false}], carried) {
		return 0
	}
	n := g.o.Room/g.o.Snapshots + 2
	if g.o.Speculate != NoSpeculation {
		n++
	}
	return n
}

// saveStates copies a slot's carried states to a snapshot.
func (g *Generator) saveStates(x *slot, to int) (err error) {
	s := &x.snapshots[to]
	if s.states == nil {
		if s.states, err = g.emptyStates(carried); err != nil {
			return err
		}
	}
	for name, a := range s.states {
		if err := copyParts(a, x.states[name], 1, 1); err != nil {
			return fmt.Errorf("state %s: %w", name, err)
		}
	}
	return nil
}

// copyStates copies the states of a slot's first n tokens to another slot, or to itself. place is where its carried
// states of n tokens are. Each rank copies its own shards.
func (g *Generator) copyStates(from, to *slot, n, place int) error {
	for _, x := range g.states[shape{1, 1, false}] {
		src, dst, rows, of := from.states[x.Name], to.states[x.Name], n, g.o.Room
		if x.Kind == nn.Carried {
			rows, of = 1, 1
			switch place {
			case live:
			case empty:
				src = nil
			default:
				src = from.snapshots[place].states[x.Name]
			}
		}
		if src == dst {
			continue
		}
		if err := copyParts(dst, src, rows, of); err != nil {
			return fmt.Errorf("state %s: %w", x.Name, err)
		}
	}
	return nil
}

// copyParts copies the first rows of a state [1,of,..], or zeros if src is nil.
func copyParts(dst, src *runtime.Array, rows, of int) error {
	to, err := dst.Parts()
	if err != nil {
		return err
	}
	var from []runtime.Part
	if src != nil {
		if from, err = src.Parts(); err != nil {
			return err
		}
	}
	for i, p := range to {
		if src == nil {
			clear(p.Bytes())
			continue
		}
		copy(p.Bytes(), from[i].Bytes()[:len(p.Bytes())/of*rows])
	}
	return nil
}
