package verbs

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gomoe/gomoe/jaccl/link"
)

// side watches a connection to every peer, on which nothing is sent: its end is the
// peer's. Queue pairs do not tell, and a link is made, and has to end its exchanges,
// before there is a watch and without one. What it finds only ends the exchange: which
// rank the job has lost is for the watch to decide, see package watch.
type side struct {
	conns []net.Conn
	ends  []atomic.Pointer[error]
	wg    sync.WaitGroup
}

func newSide(ctx context.Context, site link.Site) (*side, error) {
	conns, err := site.Dial(ctx, "rdma: liveness")
	if err != nil {
		return nil, err
	}
	s := &side{conns: conns, ends: make([]atomic.Pointer[error], len(conns))}
	for i, c := range conns {
		if c == nil {
			continue
		}
		s.wg.Go(func() {
			n, err := c.Read(make([]byte, 1))
			if n > 0 {
				err = fmt.Errorf("it has sent what no rank sends on this connection")
			} else {
				err = fmt.Errorf("%w (%v)", errPeerClosed, err)
			}
			err = fmt.Errorf("rdma: rank %d (%s): %w", i, site.Host(i), err)
			s.ends[i].Store(&err)
		})
	}
	return s, nil
}

// gone returns why a peer is no more, nil if it is.
func (s *side) gone(peer int) error {
	if err := s.ends[peer].Load(); err != nil {
		return *err
	}
	return nil
}

func (s *side) close() {
	for _, c := range s.conns {
		if c != nil {
			c.Close()
		}
	}
	s.wg.Wait()
}
