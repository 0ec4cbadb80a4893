package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// sideChannel is JACCL's: connections of TCP between rank 0 and each other rank, which
// first say their rank. It has one operation, an all-gather of equal lengths: the others
// send theirs, and rank 0 sends what all have sent, by rank. There is no framing and no
// version.
//
// Source: TCPAllGather and SideChannel in MLX's mlx/distributed/jaccl/lib/jaccl.
type sideChannel struct {
	rank, size int
	conns      []net.Conn // rank 0: by rank; another: of rank 0 only
}

// setupTime is how long a job takes to come together if its context does not say. A
// rank of JACCL gives up connecting after 15 s.
const setupTime = time.Minute

// meetRanks connects rank to the others. ctx has a deadline. Rank 0 may have a listener.
func meetRanks(ctx context.Context, rank, size int, coordinator string, l net.Listener) (*sideChannel, error) {
	// JACCL splits at the first colon, and its sockets are of IPv4.
	if host, port, ok := strings.Cut(coordinator, ":"); !ok || host == "" || port == "" || strings.Contains(port, ":") {
		return nil, fmt.Errorf("coordinator %q, want an address of IPv4 and a port, as 10.0.0.1:32323", coordinator)
	}
	s := &sideChannel{rank: rank, size: size, conns: make([]net.Conn, size)}
	var err error
	if rank == 0 {
		err = s.listen(ctx, coordinator, l)
	} else {
		err = s.dial(ctx, coordinator)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sideChannel) listen(ctx context.Context, coordinator string, l net.Listener) error {
	if l == nil {
		var config net.ListenConfig
		var err error
		if l, err = config.Listen(ctx, "tcp4", coordinator); err != nil {
			return fmt.Errorf("coordinator %s: %w", coordinator, err)
		}
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for missing := s.size - 1; missing > 0; {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("coordinator %s: ranks %v have not connected: %w", coordinator, s.absent(), context.Cause(ctx))
			}
			return fmt.Errorf("coordinator %s: %w", coordinator, err)
		}
		var b [4]byte
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(c, b[:]); err != nil {
			c.Close() // no rank: they speak at once
			continue
		}
		c.SetReadDeadline(time.Time{})
		switch r := int64(int32(binary.LittleEndian.Uint32(b[:]))); {
		case r < 1 || r >= int64(s.size):
			c.Close()
			return fmt.Errorf("coordinator %s: %s says that it is rank %d, want 1 to %d; check that all ranks have the same file of devices", coordinator, c.RemoteAddr(), r, s.size-1)
		case s.conns[r] != nil:
			c.Close()
			return fmt.Errorf("coordinator %s: both %s and %s say that they are rank %d", coordinator, s.conns[r].RemoteAddr(), c.RemoteAddr(), r)
		default:
			s.conns[r] = c
			missing--
		}
	}
	return nil
}

// absent are the ranks that have not connected.
func (s *sideChannel) absent() []int {
	var out []int
	for r := 1; r < s.size; r++ {
		if s.conns[r] == nil {
			out = append(out, r)
		}
	}
	return out
}

func (s *sideChannel) dial(ctx context.Context, coordinator string) error {
	var d net.Dialer
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := d.DialContext(ctx, "tcp4", coordinator)
		if err == nil {
			s.conns[0] = c
			_, err = c.Write(binary.LittleEndian.AppendUint32(nil, uint32(s.rank)))
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("coordinator %s, rank 0, does not answer: %w", coordinator, errors.Join(err, context.Cause(ctx)))
		case <-time.After(wait):
		}
	}
}

// gather returns what every rank passes, all of one length, by rank.
func (s *sideChannel) gather(ctx context.Context, mine []byte) ([]byte, error) {
	for _, c := range s.conns {
		if c != nil {
			defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
		}
	}
	failed := func(rank int, err error) error {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("rank %d on the side channel: %w", rank, err)
	}
	all := make([]byte, s.size*len(mine))
	if s.rank > 0 {
		if _, err := s.conns[0].Write(mine); err != nil {
			return nil, failed(0, err)
		}
		if _, err := io.ReadFull(s.conns[0], all); err != nil {
			return nil, failed(0, err)
		}
		return all, nil
	}
	copy(all, mine)
	for r := 1; r < s.size; r++ {
		if _, err := io.ReadFull(s.conns[r], all[r*len(mine):][:len(mine)]); err != nil {
			return nil, failed(r, err)
		}
	}
	for r := 1; r < s.size; r++ {
		if _, err := s.conns[r].Write(all); err != nil {
			return nil, failed(r, err)
		}
	}
	return all, nil
}

// gatherItems is JACCL's all-gather of vectors, of size elements each on every rank:
// first of the numbers of elements, then of the elements.
func (s *sideChannel) gatherItems(ctx context.Context, mine []byte) ([]byte, error) {
	counts, err := s.gather(ctx, binary.LittleEndian.AppendUint32(nil, uint32(s.size)))
	if err != nil {
		return nil, err
	}
	for r := range s.size {
		if n := binary.LittleEndian.Uint32(counts[4*r:]); n != uint32(s.size) {
			return nil, fmt.Errorf("rank %d has the devices of %d ranks, want those of %d; check that all ranks have the same file of devices", r, int32(n), s.size)
		}
	}
	return s.gather(ctx, mine)
}

// barrier is JACCL's: an all-gather of nothing in particular, twice.
func (s *sideChannel) barrier(ctx context.Context) error {
	for range 2 {
		if _, err := s.gather(ctx, make([]byte, 4)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sideChannel) close() {
	for _, c := range s.conns {
		if c != nil {
			c.Close()
		}
	}
}
