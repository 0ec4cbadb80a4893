package snapshot

import (
	"context"
	"sync"
	"time"
)

// rest is the time that a pace rests after work, as a multiple of the work's duration. Work then takes 1/33 of a
// core, so steps that keep all cores busy are slowed down by no more than that, even if each waits for its slowest
// core.
const rest = 32

// pace spreads work over time, until a caller waits for its completion.
type pace struct {
	ctx     context.Context
	rush    chan struct{}
	hurries sync.Once
}

func newPace(ctx context.Context) *pace { return &pace{ctx: ctx, rush: make(chan struct{})} }

// hurry ends all rests.
func (p *pace) hurry() { p.hurries.Do(func() { close(p.rush) }) }

// do performs a small piece of work, and rests. After the context has ended, it does nothing and returns the cause.
func (p *pace) do(work func() error) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	began := time.Now()
	if err := work(); err != nil {
		return err
	}
	select {
	case <-p.rush:
		return nil
	default:
	}
	t := time.NewTimer(rest * time.Since(began))
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.rush:
	case <-p.ctx.Done():
	}
	return nil
}
