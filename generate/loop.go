package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// loop runs steps while there are sequences, and otherwise waits for new ones.
func (g *Generator) loop(ctx context.Context) {
	defer close(g.done)
	var ticks <-chan time.Time
	if g.peers != nil {
		ticker := time.NewTicker(beat(g.o.Deadline))
		defer ticker.Stop()
		ticks = ticker.C
	}
	var running []*sequence
	var err error
	for closing := false; err == nil && !closing; {
		running, closing = g.admit(running)
		for _, s := range running {
			switch {
			case err != nil || closing:
			case s.slot == nil:
				err = g.seat(ctx, s)
			case s.slid:
				err = g.cut(ctx, s.slot, s.slot.keeps(s.window(), g.model.Grows))
			}
			s.slid = false
		}
		ready := slices.DeleteFunc(slices.Clone(running), (*sequence).full)
		switch {
		case err != nil:
		case closing:
			err = g.give(ctx, order{kind: end})
		case len(ready) > 0:
			select {
			case <-ticks:
				err = g.ask(ctx)
			default:
			}
			if err == nil {
				err = g.step(ctx, ready)
			}
		default:
			select {
			case <-g.wake:
			case <-ticks:
				err = g.ask(ctx)
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	why := ErrClosed
	if err != nil && !errors.Is(err, ErrClosed) {
		g.failed = fmt.Errorf("generate: %w", err)
		why = g.failed
	}
	for _, s := range slices.Concat(running, g.queue) {
		s.end("", why)
	}
	g.queue, g.running, g.closing = nil, nil, true
}

// ask asks the other processes whether they should stop.
func (g *Generator) ask(ctx context.Context) error {
	if err := g.peers.send(ctx, order{kind: idle}); err != nil {
		return err
	}
	return g.stops(ctx, false)
}

// give makes all processes execute an order that has no logits.
func (g *Generator) give(ctx context.Context, o order) error {
	_, err := g.carryOut(ctx, o)
	return err
}

// carryOut makes all processes execute an order.
func (g *Generator) carryOut(ctx context.Context, o order) ([]float32, error) {
	if g.peers != nil {
		if err := g.peers.send(ctx, o); err != nil {
			return nil, err
		}
	}
	return g.run(ctx, o)
}

// admit removes finished sequences and admits waiting ones. It returns the running sequences, oldest first; the
// last ones may not have a slot yet.
func (g *Generator) admit(running []*sequence) (now []*sequence, closing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	running = slices.DeleteFunc(running, func(s *sequence) bool {
		over := s.ended()
		if over && s.slot != nil {
			s.slot.user = nil
		}
		return over
	})
	g.queue = slices.DeleteFunc(g.queue, (*sequence).ended)
	for len(g.queue) > 0 && len(running) < len(g.slots) && !g.closing {
		s := g.queue[0]
		g.queue = slices.Delete(g.queue, 0, 1)
		running = append(running, s)
	}
	g.running = slices.Clone(running)
	return running, g.closing
}

// seat assigns a slot to a sequence, and reuses caches for its prefix. It picks the free slot holding the longest
// prefix of the sequence and nothing else, or else the least recently used one. If another slot holds a longer
// prefix, it is copied.
func (g *Generator) seat(ctx context.Context, s *sequence) error {
	window := s.window()
	keeps := func(x *slot) int {
		if s.Scores { // scoring needs the logits of all positions
			return 0
		}
		return x.keeps(window, g.model.Grows)
	}
	common := func(x *slot) int { // tokens to continue from
		n, _ := x.from(keeps(x))
		return n
	}
	var best, most *slot
	for _, x := range g.slots {
		n := common(x)
		if most == nil || n > common(most) {
			most = x
		}
		if x.user != nil {
			continue
		}
		whole := func(y *slot) int { // tokens kept, provided that no other tokens are lost
			if n := common(y); n == len(y.seen) {
				return n
			}
			return 0
		}
		if best == nil || whole(x) > whole(best) || whole(x) == whole(best) && x.used < best.used {
			best = x
		}
	}
	n := common(best)
	if m := common(most); m >= n+blocks()[len(blocks())-2] { // a smaller gain is recomputed as fast as copied
		_, place := most.from(m)
		if err := g.copy(ctx, most, best, m, place); err != nil {
			return err
		}
		best.forget(keeps(best)) // its snapshots
		best.seen, best.plain, n = slices.Clone(most.seen[:m]), min(most.plain, m), m
	} else if err := g.cut(ctx, best, keeps(best)); err != nil {
		return err
	}
	best.user, s.slot, s.admitted = s, best, time.Now()
	g.mu.Lock()
	g.stats.Requests++
	g.stats.Reused += n
	g.mu.Unlock()
	s.mu.Lock()
	s.result.Reused, s.result.Wait = n, s.admitted.Sub(s.came)
	s.mu.Unlock()
	return nil
}

// copy copies the states of a slot's first n tokens, with carried states at a place, to another slot or to itself.
func (g *Generator) copy(ctx context.Context, from, to *slot, n, place int) error {
	at := func(x *slot) int32 { return int32(slices.Index(g.slots, x)) }
	return g.give(ctx, order{kind: copied, slots: []int32{at(from), at(to)}, start: []int32{int32(n), int32(place)}})
}

// cut keeps at most the first n tokens of a slot: carried states are those of their last snapshot.
func (g *Generator) cut(ctx context.Context, x *slot, n int) error {
	n, place := x.from(n)
	if place != live {
		if err := g.copy(ctx, x, x, n, place); err != nil {
			return err
		}
	}
	x.forget(n)
	return nil
}

// save takes a snapshot of a slot's carried states, if one is due after its last token: at regular positions, and
// before the last token of a prompt, which a further text may repeat. It returns the snapshot's index, or -1.
func (g *Generator) save(ctx context.Context, x *slot, prompt int) (int, error) {
	n := len(x.seen)
	if n == 0 || len(x.snapshots) == 0 || n%g.o.Snapshots != 0 && n != prompt-1 {
		return -1, nil
	}
	to := -1
	for i, s := range x.snapshots {
		switch {
		case s.tokens == n:
			return -1, nil
		case s.tokens == 0:
			to = i
		case s.tokens%g.o.Snapshots != 0 && (to < 0 || s.tokens < x.snapshots[to].tokens): // of an earlier prompt
			to = i
		}
	}
	if err := g.give(ctx, order{kind: saved, slots: []int32{int32(slices.Index(g.slots, x))}, start: []int32{int32(to), 0}}); err != nil {
		return -1, err
	}
	x.snapshots[to].tokens = n
	return to, nil
}

// commonPrefix returns the length of the common prefix of a and b.
func commonPrefix(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// step runs a step with guesses if there is one sequence, and otherwise a block of the first sequence with a block left to compute, and then a step of one token for each
// sequence with less than a block left.
func (g *Generator) step(ctx context.Context, running []*sequence) error {
	began := time.Now()
	defer func() {
		g.mu.Lock()
		g.stats.Busy += time.Since(began)
		g.mu.Unlock()
	}()
	if len(running) == 1 {
		if done, err := g.speculate(ctx, running[0]); done {
			return err
		}
	}
	var together []*sequence
	blocked := false
	for _, s := range running {
		lacks := g.untilSnapshot(s, len(s.window())-s.kept())
		if len(running) > 1 {
			lacks = min(lacks, besides)
		}
		if s.scores() {
			lacks = min(lacks, mostScored)
		}
		n := g.block(lacks)
		if n == 1 {
			together = append(together, s)
		} else if !blocked {
			blocked = true
			if err := g.compute(ctx, n, s); err != nil {
				return err
			}
		}
	}
	if len(together) > 0 {
		return g.compute(ctx, 1, together...)
	}
	return nil
}

// untilSnapshot returns the number of tokens, of those that a sequence lacks, before the next snapshot is due.
func (g *Generator) untilSnapshot(s *sequence, lacks int) int {
	if len(s.slot.snapshots) == 0 {
		return lacks
	}
	at := s.kept()
	if before := s.prompt(s.window()) - 1 - at; before > 0 {
		lacks = min(lacks, before)
	}
	return min(lacks, g.o.Snapshots-at%g.o.Snapshots)
}

// compute runs a step of n tokens for each of the given sequences, and samples the next token of those with all
// tokens computed.
func (g *Generator) compute(ctx context.Context, n int, sequences ...*sequence) error {
	o := order{kind: step}
	windows := make([][]int32, len(sequences))
	for i, s := range sequences {
		w, at := s.window(), s.kept()
		o.slots = append(o.slots, int32(slices.Index(g.slots, s.slot)))
		o.start = append(o.start, int32(at))
		o.length = append(o.length, int32(len(w)))
		o.ids = append(o.ids, w[at:at+n]...)
		switch windows[i] = w; {
		case s.scores() && n > 1:
			o.kind = scored
		case s.scores() || at+n == len(w):
			o.kind = last
		}
	}
	logits, err := g.carryOut(ctx, o)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.stats.Steps++
	now := g.stats.Steps
	g.mu.Unlock()
	rows := 1 // of logits per sequence
	if o.kind == scored {
		rows = n
	}
	prompt, generated := 0, 0
	var choosing sync.WaitGroup
	for i, s := range sequences {
		at := s.kept()
		own := logits
		if o.kind == last || o.kind == scored {
			own = logits[i*rows*g.model.Vocab:][:rows*g.model.Vocab]
		}
		s.slot.sees(windows[i][at:at+n], len(windows[i]), g.model.Grows)
		s.slot.used = now
		if _, err := g.save(ctx, s.slot, s.prompt(windows[i])); err != nil {
			return err
		}
		if s.scores() {
			if err := s.score(own, g.model.Vocab, at); err != nil {
				s.end("", err)
				continue
			}
		}
		if whole := at+n == len(windows[i]); !whole || s.result.Tokens == 0 {
			prompt += n
		}
		if at+n == len(windows[i]) {
			generated++
			choose := func() { s.next(own[(rows-1)*g.model.Vocab:], g.o.Room) }
			if len(sequences) == 1 { // starting a goroutine would take as long as sampling
				choose()
				continue
			}
			choosing.Go(choose)
		}
	}
	choosing.Wait()
	g.mu.Lock()
	g.stats.Generated += generated
	g.stats.Prompt += prompt
	g.mu.Unlock()
	return nil
}
