package mesh

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

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
