package mesh

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// sideChannel is JACCL's side channel: TCP connections between rank 0 and each other rank.
// The other rank first sends its number. There is one operation, an all-gather of blocks of
// equal length: every rank sends its block to rank 0, and rank 0 sends all blocks, by rank,
// to every rank. There is no framing and no version.
//
// Source: TCPAllGather and SideChannel in MLX's mlx/distributed/jaccl/lib/jaccl.
type sideChannel struct {
	rank, size int
	conns      []net.Conn // by rank; ranks other than 0 have only the connection with rank 0
}

// setupTime is the time that the ranks of a job wait for each other if the context has no
// deadline. A rank of JACCL gives up connecting after 15 s.
const setupTime = time.Minute

// meetRanks returns the side channel of rank, set up through the coordinator's port. ctx
// must have a deadline.
func meetRanks(ctx context.Context, rank, size int, coordinator string) (*sideChannel, error) {
	// JACCL splits the address at the first colon, and has only IPv4 sockets.
	if host, port, ok := strings.Cut(coordinator, ":"); !ok || host == "" || port == "" || strings.Contains(port, ":") {
		return nil, fmt.Errorf("coordinator %s, want an address of IPv4 and a port, as 10.0.0.1:32323", quoted.Text(coordinator))
	}
	s := &sideChannel{rank: rank, size: size, conns: make([]net.Conn, size)}
	var err error
	if rank == 0 {
		err = s.listen(ctx, coordinator)
	} else {
		err = s.dial(ctx, coordinator)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("coordinator %s: %w", coordinator, err)
	}
	return s, nil
}

// overConns returns the side channel over connections existing already, one with each
// other rank. It closes connections between ranks other than rank 0, which JACCL does not
// have.
func overConns(rank int, conns []net.Conn) *sideChannel {
	for r, c := range conns {
		if rank > 0 && r > 0 && c != nil {
			c.Close()
			conns[r] = nil
		}
	}
	return &sideChannel{rank: rank, size: len(conns), conns: conns}
}

// absent returns the ranks that have not connected.
func (s *sideChannel) absent() []int {
	var out []int
	for r := 1; r < s.size; r++ {
		if s.conns[r] == nil {
			out = append(out, r)
		}
	}
	return out
}

// dial connects this rank with rank 0.
func (s *sideChannel) dial(ctx context.Context, coordinator string) error {
	c, err := headless.Dial(ctx, "tcp4", coordinator, 50*time.Millisecond, time.Second)
	if err != nil {
		return fmt.Errorf("rank 0 does not answer: %w", err)
	}
	s.conns[0] = c
	_, err = c.Write(binary.LittleEndian.AppendUint32(nil, uint32(s.rank)))
	return err
}

// gather is the all-gather of the side channel: it returns the blocks of all ranks, by
// rank. mine must have the same length on all ranks.
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

// gatherItems is JACCL's all-gather of vectors that have an element for each rank and wire.
// It gathers first the numbers of elements and then the elements.
func (s *sideChannel) gatherItems(ctx context.Context, mine []byte, wires int) ([]byte, error) {
	want := uint32(wires * s.size)
	counts, err := s.gather(ctx, binary.LittleEndian.AppendUint32(nil, want))
	if err != nil {
		return nil, err
	}
	for r := range s.size {
		n := binary.LittleEndian.Uint32(counts[4*r:])
		switch {
		case n == want:
		case wires > 1 && n == uint32(s.size):
			return nil, fmt.Errorf("rank %d uses one wire to each rank, want %d, as the file of devices says; MLX uses several wires from 0.32.4 on: install that on all ranks, or give a file with one device for each pair", r, wires)
		default:
			return nil, fmt.Errorf("rank %d has connections for %d ranks and wires, want %d, for %d ranks on %d wires; check that all ranks have the same file of devices", r, int32(n), want, s.size, wires)
		}
	}
	return s.gather(ctx, mine)
}

// barrier is JACCL's barrier: two all-gathers of 4 bytes that mean nothing.
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

// The limits on connections to the coordinator's port, which is open to anybody. A rank
// sends its number as soon as it has connected.
const (
	maxCallers = 64              // the most connections that have not sent a rank yet; if there are more, the oldest is closed
	helloTime  = 5 * time.Second // time limit for a connection to send its rank
)

// callers are the connections to rank 0 while ranks are missing. A connection is closed if
// it sends a number that is not a rank of the job, or a rank that has connected already, or
// nothing. Such connections do not delay the ranks.
type callers struct {
	s       *sideChannel
	l       net.Listener // closed when all ranks have connected
	mu      sync.Mutex
	silent  []net.Conn // connections that have not sent a rank, the oldest first
	missing int        // number of ranks not connected yet
	refused string     // about the last connection with a wrong rank, for an error
}

// listen waits at the coordinator's address until all other ranks have connected.
func (s *sideChannel) listen(ctx context.Context, coordinator string) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", coordinator)
	if err != nil {
		return err
	}
	w := &callers{s: s, l: l, missing: s.size - 1}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var readers sync.WaitGroup
	for {
		var c net.Conn
		if c, err = l.Accept(); err != nil {
			break
		}
		w.came(c)
		readers.Go(func() {
			var b [4]byte
			c.SetReadDeadline(time.Now().Add(helloTime))
			_, err := io.ReadFull(c, b[:])
			c.SetReadDeadline(time.Time{})
			w.said(c, int64(int32(binary.LittleEndian.Uint32(b[:]))), err)
		})
	}
	l.Close()
	w.hangUp()
	readers.Wait()
	switch {
	case w.missing == 0:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("ranks %v have not connected: %w%s", s.absent(), context.Cause(ctx), w.refused)
	}
	return err
}

func (w *callers) came(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.silent) == maxCallers {
		w.silent[0].Close()
		w.silent = w.silent[1:]
	}
	w.silent = append(w.silent, c)
}

// said takes c for the connection of rank r, or closes it if r is wrong or could not be
// read.
func (w *callers) said(c net.Conn, r int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = slices.DeleteFunc(w.silent, func(s net.Conn) bool { return s == c })
	switch {
	case err != nil || w.missing == 0:
	case r < 1 || r >= int64(w.s.size):
		w.refused = fmt.Sprintf("; %s says that it is rank %d, want 1 to %d; check that all ranks have the same file of devices", c.RemoteAddr(), r, w.s.size-1)
	case w.s.conns[r] != nil:
		w.refused = fmt.Sprintf("; both %s and %s say that they are rank %d", w.s.conns[r].RemoteAddr(), c.RemoteAddr(), r)
	default:
		w.s.conns[r] = c
		if w.missing--; w.missing == 0 {
			w.l.Close()
		}
		return
	}
	c.Close()
}

// hangUp closes the connections that have not sent a rank.
func (w *callers) hangUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.silent {
		c.Close()
	}
}
