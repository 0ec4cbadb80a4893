package generate

import (
	"cmp"
	"context"
	"slices"
)

// Speculation is a source of guesses for the next tokens. A step computes the logits of all guesses at once, and those
// that are the tokens chosen from these logits are accepted. So the tokens, greedy or sampled, are those generated
// without guesses.
type Speculation string

const (
	NoSpeculation Speculation = ""
	// NGram guesses the tokens that followed the last three tokens where these were seen before.
	NGram Speculation = "ngram"
)

// String returns off for NoSpeculation.
func (x Speculation) String() string { return cmp.Or(string(x), "off") }

// gram is the number of tokens by which NGram finds an earlier place.
const gram = 3

// guesses returns the possible numbers of guesses of a step, smallest first: a step computes one token more.
func guesses() []int { return []int{7, mostScored - 1} }

// speculation guesses the tokens of a sequence.
type speculation struct {
	after   map[[gram]int32]int // the index of the token that last followed some tokens
	indexed int                 // number of tokens whose following ones are in after
	size    int                 // index into guesses of the next step
	failed  int                 // steps in a row without enough accepted guesses
	wait    int                 // chances to leave out
}

// guess returns guesses for the tokens following ids, or nil.
func (g *speculation) guess(ids []int32) []int32 {
	if g.after == nil {
		g.after = map[[gram]int32]int{}
	}
	for i := max(g.indexed, gram); i < len(ids); i++ {
		g.after[[gram]int32(ids[i-gram:i])] = i
	}
	g.indexed = len(ids)
	if len(ids) < gram {
		return nil
	}
	from, ok := g.after[[gram]int32(ids[len(ids)-gram:])]
	if !ok {
		return nil
	}
	if g.wait > 0 {
		g.wait--
		return nil
	}
	next := make([]int32, guesses()[g.size])
	for i := range next {
		if at := from + i; at < len(ids) {
			next[i] = ids[at]
		} else { // a text that repeats its last tokens
			next[i] = next[at-len(ids)]
		}
	}
	return next
}

// learn adapts to the number of accepted guesses. After a full step, more are guessed. After a step that took longer
// than its tokens one by one, chances are left out, twice as many each time.
func (g *speculation) learn(accepted, of int) {
	switch {
	case accepted == of:
		g.size, g.failed = min(g.size+1, len(guesses())-1), 0
	case accepted >= of/2:
		g.failed = 0
	default:
		g.size, g.failed = 0, min(g.failed+1, 8)
		g.wait = 1<<g.failed - 1
	}
}

// speculate runs a step with guesses for a sequence that lacks its last token only, and takes the accepted ones. It
// returns false if there is nothing to guess.
func (g *Generator) speculate(ctx context.Context, s *sequence) (bool, error) {
	w, at := s.window(), s.kept()
	longest := g.o.Room
	if g.model.Grows > 0 {
		longest = min(longest, g.model.Grows)
	}
	if g.o.Speculate == NoSpeculation || s.result.Tokens == 0 || at+1 != len(w) {
		return false, nil
	}
	next := s.speculation.guess(s.ids)
	if next == nil || len(w)+len(next) > longest {
		return false, nil
	}
	x := s.slot
	saved, err := g.save(ctx, x, at+1) // for carried states
	if err != nil {
		return true, err
	}
	ids := append(slices.Clone(w[at:]), next...)
	n := int32(len(w) + len(next))
	logits, err := g.carryOut(ctx, order{kind: scored, slots: []int32{int32(slices.Index(g.slots, x))}, start: []int32{int32(at)}, length: []int32{n}, ids: ids})
	if err != nil {
		return true, err
	}
	accepted := 0
	for i := range ids {
		s.next(logits[i*g.model.Vocab:][:g.model.Vocab], g.o.Room)
		if i == len(next) || s.ended() || s.ids[len(s.ids)-1] != next[i] {
			break
		}
		accepted++
	}
	g.mu.Lock()
	g.stats.Steps++
	g.stats.Generated += accepted + 1
	g.stats.Guessed += len(next)
	g.stats.Accepted += accepted
	x.used = g.stats.Steps
	g.mu.Unlock()
	s.speculation.learn(accepted, len(next))
	x.sees(ids, int(n), g.model.Grows)
	if err := g.cut(ctx, x, at+1+accepted); err != nil {
		return true, err
	}
	if saved >= 0 && at%g.o.Snapshots != 0 {
		x.snapshots[saved].tokens = 0
	}
	return true, nil
}
