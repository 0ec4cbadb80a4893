package verbs

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gomoe/gomoe/jaccl/link"
)

// side watches one connection to every peer, on which nothing is sent: when the connection
// ends, the peer has ended. Queue pairs do not report the end of a peer, and a link has to
// end its exchanges even if there is no watch yet or none at all. What side finds only ends
// the exchange; package watch decides which rank the job has lost.
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

// gone returns how the connection to a peer has ended, nil if it has not.
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
