package generate

import (
	"context"
	"fmt"
	"maps"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
)

// slot holds the caches of a sequence.
type slot struct {
	caches map[string]*runtime.Array
	seen   []int32 // tokens with keys and values in the caches
	plain  int     // length of their prefix computed with positions independent of the text's length
	user   *sequence
	used   int // number of the last step using the slot
}

// keeps returns how many of the slot's cached tokens match the beginning of window, without its last token. If
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

// sees records tokens, of a text with the given length, as cached.
func (x *slot) sees(tokens []int32, length, grows int) {
	if x.plain == len(x.seen) && (grows == 0 || length <= grows) {
		x.plain += len(tokens)
	}
	x.seen = append(x.seen, tokens...)
}

// forget keeps only the first n tokens in the caches.
func (x *slot) forget(n int) { x.seen, x.plain = x.seen[:n], min(x.plain, n) }

// order is a command that all processes execute at the same time. The first process issues the orders.
type order struct {
	kind kind
	// slots are the slots of a step's sequences, or the source and the destination of a copy.
	slots []int32
	// start is the position of each sequence's first token, or the number of positions to copy.
	start []int32
	// length is the current length of each sequence, including tokens after the step's; nil for copies.
	length []int32
	ids    []int32 // tokens of the first sequence, then of the second, and so on, with equal numbers
}

type kind int32

const (
	idle kind = iota // checks that all processes are alive, and whether they were asked to stop
	step             // a step without logits, within a prompt
	last             // a step returning the logits of the last tokens
	copied
	end
	scored // a step of one sequence returning the logits of all its tokens
)

// run executes an order in this process, and returns the requested logits.
func (g *Generator) run(ctx context.Context, o order) (logits []float32, err error) {
	switch o.kind {
	case copied:
		return nil, g.copyCaches(g.slots[o.slots[0]], g.slots[o.slots[1]], int(o.start[0]))
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
	for i, k := range g.kept[at] { // the step updates them in place
		cache := g.slots[o.slots[k.Sequence]].caches[k.Name]
		args.in[k.In.Name], args.out[1+i] = cache, cache
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
	out []*runtime.Array // logits, followed by caches
}

// copyCaches copies the first n positions of a slot's caches to another slot. Each rank copies its own shards.
func (g *Generator) copyCaches(from, to *slot, n int) error {
	for name, a := range from.caches {
		src, err := a.Parts()
		if err != nil {
			return fmt.Errorf("cache %s: %w", name, err)
		}
		dst, err := to.caches[name].Parts()
		if err != nil {
			return fmt.Errorf("cache %s: %w", name, err)
		}
		for i, p := range src { // [1,Room,heads,width]
			copy(dst[i].Bytes(), p.Bytes()[:len(p.Bytes())/g.o.Room*n])
		}
	}
	return nil
}
