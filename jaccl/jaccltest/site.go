package jaccltest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/gomoe/gomoe/jaccl/link"
)

// Sites returns the sites of n ranks of one process, by rank, for tests of transports. The
// hosts are named host0, host1 and so on, and count as one machine. Connections are TCP over
// loopback.
func Sites(n int) []link.Site {
	m := &meeting{n: n, turns: map[int]*turn{}}
	sites := make([]link.Site, n)
	for i := range sites {
		sites[i] = &site{m: m, rank: i}
	}
	return sites
}

// meeting is shared by the sites: the n-th call of every rank meets the n-th calls of the
// others.
type meeting struct {
	n     int
	mu    sync.Mutex
	turns map[int]*turn
}

type turn struct {
	key  []string
	data [][]byte
	come int
	full chan struct{}
}

type site struct {
	m    *meeting
	rank int
	next int
}

func (s *site) Rank() int              { return s.rank }
func (s *site) Size() int              { return s.m.n }
func (s *site) Host(rank int) string   { return fmt.Sprintf("host%d", rank) }
func (s *site) SameHost(rank int) bool { return true }

func (s *site) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	s.m.mu.Lock()
	t := s.m.turns[s.next]
	if t == nil {
		t = &turn{key: make([]string, s.m.n), data: make([][]byte, s.m.n), full: make(chan struct{})}
		s.m.turns[s.next] = t
	}
	s.next++
	t.key[s.rank], t.data[s.rank] = key, bytes.Clone(mine)
	if t.come++; t.come == s.m.n {
		close(t.full)
	}
	s.m.mu.Unlock()
	select {
	case <-t.full:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for r, k := range t.key {
		if k != t.key[0] {
			return nil, fmt.Errorf("jaccltest: gather: rank %d is at %q and rank 0 at %q", r, k, t.key[0])
		}
	}
	return t.data, nil
}

func (s *site) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })() // a rank may not arrive
	addrs, err := s.Gather(ctx, "dial "+purpose, []byte(l.Addr().String()))
	if err != nil {
		return nil, err
	}
	conns := make([]net.Conn, s.m.n)
	for r := range s.rank { // lower ranks listen
		if conns[r], err = new(net.Dialer).DialContext(ctx, "tcp", string(addrs[r])); err != nil {
			return nil, err
		}
		if _, err = conns[r].Write([]byte{byte(s.rank)}); err != nil {
			return nil, err
		}
	}
	for range s.m.n - s.rank - 1 {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		var who [1]byte
		if _, err := c.Read(who[:]); err != nil {
			return nil, err
		}
		conns[who[0]] = c
	}
	return conns, nil
}
