package generate

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Generate continues a prompt and calls emit with each token; emit ends the text by returning false. With
// Request.Scores, emit receives the prompt's tokens first. Generate blocks until a slot among the concurrently
// generated sequences is free, and then for every token. The tokens are identical bit by bit, regardless of other
// sequences generated at the same time. Cached keys and values of earlier prompts are reused for a common prefix.
//
// Errors: a *RequestError, which may wrap a *RoomError; ErrBusy if too many requests are waiting; ErrClosed; the
// cause of ctx, if ctx ends, which ends only this request; and the error of a failed step, with which all later
// requests fail as well. The Result describes the work done until then.
func (g *Generator) Generate(ctx context.Context, r Request, emit func(Token) bool) (Result, error) {
	if g.peers != nil && !g.peers.first {
		return Result{}, errors.New("generate: this is not the first process of the job; call Follow")
	}
	if emit == nil {
		return Result{}, errors.New("generate: emit is nil, want a function that takes the tokens")
	}
	if err := g.check(r); err != nil {
		return Result{}, &RequestError{err}
	}
	s := g.newSequence(r)
	if err := g.submit(s); err != nil {
		return Result{}, err
	}
	defer s.leave()
	for {
		select {
		case <-s.news:
		case <-ctx.Done():
			_, result, _, _ := s.take()
			return result, ctx.Err()
		}
		tokens, result, done, err := s.take()
		for i, t := range tokens {
			if !emit(t) {
				result.Finish, result.Rest = Stopped, ""
				for _, left := range tokens[i+1:] {
					if !left.Prompt {
						result.Tokens--
					}
				}
				return result, nil
			}
		}
		if done {
			return result, err
		}
	}
}

// submit enqueues a sequence.
func (g *Generator) submit(s *sequence) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.failed != nil:
		return g.failed
	case g.closing:
		return ErrClosed
	case g.o.Queue > 0 && g.present() >= g.o.Queue+g.o.Sequences:
		return ErrBusy
	}
	g.queue = append(g.queue, s)
	g.look()
	return nil
}

// present returns the number of running and waiting requests. The caller holds g.mu.
func (g *Generator) present() (n int) {
	for _, s := range slices.Concat(g.running, g.queue) {
		if !s.ended() {
			n++
		}
	}
	return n
}

// look wakes the loop to check the queue.
func (g *Generator) look() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Stats returns the Generator's statistics.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Running, s.Waiting, s.Sequences, s.Queue = len(g.running), len(g.queue), g.o.Sequences, g.o.Queue
	return s
}

// Failed returns a channel that is closed when the Generator stops running steps, because one failed or because of
// Close. Err tells them apart.
func (g *Generator) Failed() <-chan struct{} { return g.done }

// Err returns the error of the failed step, or nil if none failed.
func (g *Generator) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// Close ends all requests with ErrClosed, makes Follow return in the other processes, and releases the ranks. It
// waits for the current step, which waits for other processes up to the job's deadline. In a single process it also
// stops compilation. It writes the states that Options.States keeps.
func (g *Generator) Close() error {
	g.mu.Lock()
	g.closing = true
	g.look()
	g.mu.Unlock()
	g.close(ErrClosed)
	<-g.done
	var errs []error
	if g.made != "" && g.failed == nil {
		errs = append(errs, g.store())
	}
	if g.release != nil {
		errs = append(errs, g.release())
	}
	g.made, g.release = "", nil
	if j := g.jobs[shape{1, 1, false}]; j != nil {
		j.Recycle(slices.Collect(maps.Values(g.in))...) // returns memory lent by the files
	}
	for _, j := range g.jobs {
		errs = append(errs, j.Close())
	}
	g.jobs, g.args = nil, nil
	return errors.Join(errs...)
}
