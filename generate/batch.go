package generate

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Generate continues a prompt and calls emit with each token, which ends the text by returning false. With
// Request.Scores the tokens of the prompt come first. It waits for a
// place among the sequences that are generated at once, and for every token. The tokens are the same bits whatever
// else is generated at the time. What caches hold of earlier prompts is used again as far as the prompt begins alike.
//
// Errors: a *RequestError, which may be for a *RoomError; ErrBusy if too many requests wait; ErrClosed; ctx's, when
// ctx ends, which ends this request alone; and that of a step, after which all requests fail with it. The Result
// says what was done until then.
func (g *Generator) Generate(ctx context.Context, r Request, emit func(Token) bool) (Result, error) {
	if g.peers != nil && !g.peers.first {
		return Result{}, errors.New("generate: this is not the first process of the job; call Follow")
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

// submit puts a sequence into the queue.
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

// present returns how many requests run or wait. The caller holds g.mu.
func (g *Generator) present() (n int) {
	for _, s := range slices.Concat(g.running, g.queue) {
		if !s.ended() {
			n++
		}
	}
	return n
}

// look has the loop look at the queue.
func (g *Generator) look() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Stats returns what the Generator does.
func (g *Generator) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Running, s.Waiting, s.Sequences, s.Queue = len(g.running), len(g.queue), g.o.Sequences, g.o.Queue
	return s
}

// Failed returns a channel that is closed when no more steps are run, because one failed or the Generator was
// closed. Err says which.
func (g *Generator) Failed() <-chan struct{} { return g.done }

// Err returns the error of the step that failed, nil if none has.
func (g *Generator) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// Close ends all requests with ErrClosed, has the other processes' Follow return, and ends the ranks. It waits for
// the step that runs, which waits for other processes up to the job's deadline. Without other processes it ends the compiling
// of a step.
func (g *Generator) Close() error {
	g.mu.Lock()
	g.closing = true
	g.look()
	g.mu.Unlock()
	g.close(ErrClosed)
	<-g.done
	var errs []error
	if j := g.jobs[shape{1, 1, false}]; j != nil {
		j.Recycle(slices.Collect(maps.Values(g.in))...) // which gives back what the files lend
	}
	for _, j := range g.jobs {
		errs = append(errs, j.Close())
	}
	g.jobs, g.args = nil, nil
	return errors.Join(errs...)
}
