package meet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/internal/openfiles"
	"github.com/gomoe/gomoe/internal/quoted"
)

const (
	joining = "join"
	dialing = "dial "
)

// door is a rank's listener. It admits connections from peers that have proved that they
// know the secret.
type door struct {
	ln         net.Listener
	rank, size int
	job        uuid.UUID
	// meeting is the number of the meeting on rank 0, using the same address for all
	// meetings; 0 on other ranks.
	meeting   int
	secret    []byte
	patience  time.Duration // time limit for a connection to prove itself
	strangers strangers
	// join admits ranks at the coordinator; nil on ranks other than 0.
	join func(ctx context.Context, conn net.Conn, h *hello, welcome func() error)

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	halves  []net.Conn         // connections that have not proved anything yet, the oldest first
	parked  map[guest]*arrival // connections waiting for this rank's Dial
	turn    int                // the number of the next Dial, or of the one in progress
	away    []string           // the connections that were turned away last, at most 3
	closing bool
}

// guest is a rank that has connected for one Dial.
type guest struct{ rank, turn int }

type arrival struct {
	conn    net.Conn
	purpose string
	// welcomed is closed when the door has finished with the connection. The other rank
	// continues as soon as it receives the welcome, which may be earlier.
	welcomed chan struct{}
}

// open begins to accept connections.
func (d *door) open() {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.parked = map[guest]*arrival{}
	d.wg.Go(func() { d.accept(ctx) })
}

func (d *door) accept(ctx context.Context) {
	for {
		conn, err := d.ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			d.strangers.turned(d.ln.Addr(), openfiles.Explain(err).Error(), time.Now())
			if !pause(ctx, 50*time.Millisecond) {
				return
			}
			continue
		}
		if !d.enter(conn) {
			conn.Close()
			return
		}
		d.wg.Go(func() { d.answer(ctx, conn) })
	}
}

// enter notes a connection that has not proved anything yet. If there are too many such
// connections, it closes the oldest one: ranks prove themselves at once, strangers do
// not. It returns false if the door is shut.
func (d *door) enter(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return false
	}
	if len(d.halves) >= 2*d.size+64 {
		d.halves[0].Close()
		d.halves = d.halves[1:]
	}
	d.halves = append(d.halves, conn)
	return true
}

// leave notes that a connection has proved itself or failed to. It reports whether the
// door is shut: shutting it ends connections, which must not be logged as strangers then.
func (d *door) leave(conn net.Conn) (shut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.halves, conn); i >= 0 {
		d.halves = slices.Delete(d.halves, i, i+1)
	}
	return d.closing
}

// refused logs a connection turned away, recording it for turned.
func (d *door) refused(conn net.Conn, err error) {
	reason := err.Error()
	switch {
	case errors.Is(err, frame.ErrStranger):
		reason = "no rank of a job: " + reason
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		reason = "it left before it said who it is"
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = fmt.Sprintf("it did not say who it is within %v", d.patience)
	case errors.Is(err, net.ErrClosed):
		reason = "it did not say who it is, and others came"
	}
	d.strangers.turned(conn.RemoteAddr(), reason, time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = append(d.away, fmt.Sprintf("%v (%s)", conn.RemoteAddr(), reason))
	if len(d.away) > 3 {
		d.away = d.away[1:]
	}
}

// turned describes the connections turned away last, for the end of an error's text.
func (d *door) turned() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.away) == 0 {
		return ""
	}
	return "; turned away: " + strings.Join(d.away, ", ")
}

func (d *door) answer(ctx context.Context, conn net.Conn) {
	h, welcome, err := admit(ctx, conn, d.patience, d.secret, d.meeting, func(h *hello) error {
		switch {
		case h.job != d.job:
			return fmt.Errorf("%w: of %v and not of %v", errJob, h.job, d.job)
		case h.to != d.rank:
			return fmt.Errorf("it looks for rank %d, this is rank %d", h.to, d.rank)
		case h.purpose == joining && d.join == nil:
			return fmt.Errorf("it looks for the coordinator, this is rank %d", d.rank)
		case h.purpose == joining:
			return past(h.meeting, d.meeting)
		case d.meeting > 0 && h.meeting != d.meeting:
			return fmt.Errorf("it is at meeting %d, this is meeting %d", h.meeting, d.meeting)
		}
		return nil
	})
	shut := d.leave(conn)
	if err != nil {
		if !shut {
			d.refused(conn, err)
		}
		conn.Close()
		return
	}
	if h.purpose == joining {
		d.join(ctx, conn, h, welcome)
		return
	}
	a, err := d.park(conn, h)
	if err != nil {
		d.refused(conn, err)
		refuse(conn, err.Error())
		conn.Close()
		return
	}
	defer close(a.welcomed)
	if welcome() != nil { // the rank is gone; it will connect again or report the failure
		d.unpark(conn)
		conn.Close()
	}
}

// park keeps a connection for its Dial. The other rank may be one Dial ahead: this rank
// may not know yet that the last Dial was complete.
func (d *door) park(conn net.Conn, h *hello) (*arrival, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.size != d.size || h.rank <= d.rank || h.rank >= d.size:
		return nil, fmt.Errorf("it is rank %d of %d, want rank %d to %d of %d", h.rank, h.size, d.rank+1, d.size-1, d.size)
	case h.turn != d.turn && h.turn != d.turn+1 || !strings.HasPrefix(h.purpose, dialing):
		return nil, fmt.Errorf("rank %d connects for %s, number %d, where rank %d is at number %d", h.rank, quoted.Text(h.purpose), h.turn, d.rank, d.turn)
	case d.closing:
		return nil, fmt.Errorf("rank %d has closed its place", d.rank)
	}
	g := guest{h.rank, h.turn}
	if old := d.parked[g]; old != nil { // the rank did not get the welcome and has connected again
		old.conn.Close()
	}
	a := &arrival{conn, h.purpose, make(chan struct{})}
	d.parked[g] = a
	return a, nil
}

func (d *door) unpark(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for g, a := range d.parked {
		if a.conn == conn {
			delete(d.parked, g)
		}
	}
}

// take returns the parked connection of a rank for the Dial in progress. The caller owns it.
func (d *door) take(rank int, purpose string) (net.Conn, error) {
	d.mu.Lock()
	g := guest{rank, d.turn}
	a := d.parked[g]
	delete(d.parked, g)
	d.mu.Unlock()
	if a == nil {
		return nil, fmt.Errorf("meet: rank %d has not connected to rank %d", rank, d.rank)
	}
	<-a.welcomed
	if a.purpose != dialing+purpose {
		a.conn.Close()
		return nil, fmt.Errorf("meet: rank %d has connected for %s where rank %d is at %s", rank, quoted.Text(a.purpose), d.rank, quoted.Text(dialing+purpose))
	}
	return a.conn, nil
}

// next ends the Dial in progress.
func (d *door) next() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn++
}

// errJob is the error sent to a stranger of another job. Only the log shows the jobs'
// ids.
var errJob = errors.New("it is of another job")

// shut closes the listener and every connection that has not proved itself.
func (d *door) shut() {
	d.ln.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	for _, c := range d.halves {
		c.Close()
	}
	d.strangers.end()
}

// close shuts the door, closes the parked connections and waits for the door's goroutines.
func (d *door) close() {
	d.cancel()
	d.shut()
	d.mu.Lock()
	for _, a := range d.parked {
		a.conn.Close()
	}
	clear(d.parked)
	d.mu.Unlock()
	d.wg.Wait()
}

const (
	// fewStrangers are logged one by one; later ones are sampled, one in every
	// strangersEvery, with the number of the others.
	fewStrangers   = 5
	strangersEvery = 10 * time.Second
)

// strangers logs connections turned away at a door, at a limited rate.
type strangers struct {
	log func(net.Addr, string)

	mu      sync.Mutex
	count   int
	last    time.Time // when a stranger was logged last
	silent  int       // number of strangers since then that were not logged
	pending func()    // logs the last of those, with the number of the others
}

func (s *strangers) turned(who net.Addr, reason string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count <= fewStrangers {
		s.last = now
		s.log(who, reason)
		return
	}
	since := s.last
	s.silent++
	s.pending = func() {
		if s.silent > 1 {
			reason = fmt.Sprintf("%s; and %d others within %v", reason, s.silent-1, now.Sub(since).Round(time.Second))
		}
		s.log(who, reason)
	}
	if now.Sub(since) >= strangersEvery {
		s.flush(now)
	}
}

// flush logs the strangers that have not been logged. The caller holds mu.
func (s *strangers) flush(now time.Time) {
	if s.pending != nil {
		s.pending()
	}
	s.silent, s.pending, s.last = 0, nil, now
}

// end logs the strangers that have not been logged.
func (s *strangers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush(time.Now())
}
