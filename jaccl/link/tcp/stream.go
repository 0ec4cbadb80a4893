package tcp

import (
	"context"
	"net"
	"sync"
	"time"
)

// streams is a mover using calls that block, in a goroutine for each direction of each
// peer. The goroutines end with the exchange.
type streams struct {
	conns []net.Conn // by rank, nil for this rank
	mu    sync.Mutex
	stop  bool
}

func newStreams(conns []net.Conn) (mover, error) { return &streams{conns: conns}, nil }

func (s *streams) exchange(ctx context.Context, active []*peer, heads func() error) error {
	defer s.watch(ctx)()
	var sending, telling, receiving sync.WaitGroup
	var once sync.Once
	var first error
	fail := func(err error) {
		once.Do(func() {
			first = err
			s.deadline(time.Unix(1, 0)) // ends all reads and writes: the link can only be closed now
		})
	}
	for _, p := range active {
		if p.sending() {
			telling.Add(1)
			sending.Go(func() {
				told := sync.OnceFunc(telling.Done)
				defer told()
				if err := s.send(p, told); err != nil {
					fail(p.error("sending", err))
				}
			})
		}
	}
	receive := func(until func(*peer) bool) {
		for _, p := range active {
			if until(p) {
				continue
			}
			receiving.Go(func() {
				for !until(p) {
					if err := s.receive(p); err != nil {
						fail(err)
						return
					}
				}
			})
		}
		receiving.Wait()
	}
	failed := func() error {
		once.Do(func() {}) // the first error is kept from now on
		return first
	}
	if heads != nil {
		receive(func(p *peer) bool { return p.stage != heading })
		ready := true
		for _, p := range active {
			ready = ready && p.stage != heading
		}
		telling.Wait() // this rank's head goes to every peer, even if the rank then refuses a peer's
		if ready {
			if err := heads(); err != nil {
				fail(err)
			} else {
				receive(func(p *peer) bool { return p.stage == nothing })
			}
		}
	} else {
		receive(func(p *peer) bool { return p.stage == nothing })
	}
	sending.Wait()
	err := failed()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && s.stop:
		return errClosed
	}
	return err
}

// send sends everything to a peer, and calls told when the header and the head have been sent.
func (s *streams) send(p *peer, told func()) error {
	for p.sending() {
		if p.overhead == 0 {
			told()
		}
		b := p.out[0]
		n, err := s.conns[p.rank].Write(b[:min(len(b), most)])
		p.wrote(n)
		if err != nil {
			return err
		}
	}
	return nil
}

// receive reads a piece of a peer's data.
func (s *streams) receive(p *peer) error {
	if p.stage == heading {
		n, err := s.conns[p.rank].Read(p.room())
		if n > 0 {
			return p.filled(n)
		}
		if err != nil {
			return p.error("receiving", err)
		}
		return nil
	}
	b := p.in[0]
	n, err := s.conns[p.rank].Read(b[:min(len(b), most)])
	if n > 0 {
		p.got(n)
		return nil
	}
	if err != nil {
		return p.error("receiving", err)
	}
	return nil
}

// watch makes all reads and writes fail when ctx ends. The caller calls the returned
// function when the exchange is over.
func (s *streams) watch(ctx context.Context) func() {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		s.deadline(time.Unix(1, 0))
	})
	return func() {
		if stop() {
			return
		}
		<-over
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.stop { // ctx may have ended only after all reads and writes: the link stays usable
			s.deadline(time.Time{})
		}
	}
}

func (s *streams) deadline(t time.Time) {
	for _, c := range s.conns {
		if c != nil {
			c.SetDeadline(t)
		}
	}
}

func (s *streams) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	s.deadline(time.Unix(1, 0))
}

func (s *streams) close() {
	for _, c := range s.conns {
		if c != nil {
			c.Close()
		}
	}
}
