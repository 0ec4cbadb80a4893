package generate

import (
	"context"
	"fmt"
	"maps"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
)

// slot is a place for a sequence: its caches.
type slot struct {
	caches map[string]*runtime.Array
	seen   []int32 // the tokens whose keys and values are in the caches
	plain  int     // the first of them whose positions do not depend on the length of their text
	user   *sequence
	used   int // the step that last used the slot
}

// keeps returns how many of the slot's tokens have the keys and values that the text window begins with, without its last token. Where the
// positions of texts of more than grows tokens depend on their lengths, these share none; grows 0 means no such length.
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

// sees notes tokens of a text of so many tokens whose keys and values are in the caches.
func (x *slot) sees(tokens []int32, length, grows int) {
	if x.plain == len(x.seen) && (grows == 0 || length <= grows) {
		x.plain += len(tokens)
	}
	x.seen = append(x.seen, tokens...)
}

// forget leaves the first n tokens in the caches.
func (x *slot) forget(n int) { x.seen, x.plain = x.seen[:n], min(x.plain, n) }

// order is what all processes do at the same time. The first one gives the orders.
type order struct {
	kind kind
	// slots are those of a step's sequences, or the one to copy from and the one to copy to.
	slots []int32
	// start has the position of each sequence's first token, or how many positions are copied.
	start []int32
	// length has how many tokens each sequence has so far, of which a block of a prompt is a part; nil in an order that copies.
	length []int32
	ids    []int32 // the tokens of the first sequence, and so on; all have equally many
}

type kind int32

const (
	idle kind = iota // the processes see that all are alive, and say whether they were asked to end
	step             // a step without logits, within a prompt
	last             // a step with the logits of the last tokens
	copied
	end
	scored // a step of one sequence with the logits of all its tokens
)

// run carries out an order, in all processes, and returns the logits that the order asks for.
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
	if g.peers == nil { // else they wait in the step for this process
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
	for i, k := range g.kept[at] { // the step writes to them
		cache := g.slots[o.slots[k.Sequence]].caches[k.Name]
		args.in[k.In.Name], args.out[1+i] = cache, cache
	}
	if err := job.RunInto(ctx, args.in, args.out); err != nil {
		return nil, err
	}
	switch {
	case o.kind != last && o.kind != scored:
	case job.Plan().Mesh.Ranks() == 1: // the next step writes over them, and not earlier
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

// arguments are the inputs and results of the steps of a shape, which are bound once.
type arguments struct {
	in  map[string]*runtime.Array
	out []*runtime.Array // the logits and the caches
}

// copyCaches copies the first n positions of a sequence's caches to those of another one, which each rank has beside
// them.
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
