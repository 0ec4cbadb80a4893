package meet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/internal/quoted"
)

// maxResult is the largest total of bytes that all ranks pass to one Gather.
const maxResult = 256 << 20

// failure is the reason why a place is broken, as text for all ranks.
type failure struct{ text string }

func (f *failure) Error() string { return f.text }

// coordinator runs on rank 0 and does the gathers of all ranks, including rank 0. A rank
// begins a gather only when it has the result of the one before, so that there is one
// gather at a time.
type coordinator struct {
	size     int
	deadline time.Duration
	turned   func() string // describes the connections that the door turned away

	mu      sync.Mutex
	members []*member      // by rank, nil for a rank that has not joined
	turn    *turn          // the gather in progress, or the next one
	told    int            // number of processes that came and were told that there is no job
	failed  *failure       // why the place is broken; nil if it is not
	down    chan struct{}  // closed when failed is set
	timers  sync.WaitGroup // the timers of the turns' deadlines
}

// member is a rank that has joined.
type member struct {
	rank int
	host string
	conn net.Conn // nil for rank 0
	// welcomed is set once the rank has been sent the welcome. Nothing else may be sent
	// before it: the welcome proves that this is the coordinator.
	welcomed bool
	gone     string // how the rank left; "" if it is there
}

// turn is one gather.
type turn struct {
	number uint32
	come   []bool
	keys   []string
	data   [][]byte
	count  int
	timer  *time.Timer
	done   chan struct{} // closed when data is complete and has been sent to the other ranks
}

func newCoordinator(size int, host string, deadline time.Duration) *coordinator {
	c := &coordinator{size: size, deadline: deadline, members: make([]*member, size), down: make(chan struct{})}
	c.members[0] = &member{host: host}
	c.turn = c.newTurn(0)
	c.start(c.turn) // the ranks are expected from the beginning
	return c
}

func (c *coordinator) newTurn(n uint32) *turn {
	return &turn{number: n, come: make([]bool, c.size), keys: make([]string, c.size), data: make([][]byte, c.size), done: make(chan struct{})}
}

// start begins the turn's deadline. c.mu is held, or c is new.
func (c *coordinator) start(t *turn) {
	c.timers.Add(1)
	t.timer = time.AfterFunc(c.deadline, func() {
		defer c.timers.Done()
		c.expire(t)
	})
}

// stop ends the turn's deadline. c.mu is held.
func (c *coordinator) stop(t *turn) {
	if t.timer != nil && t.timer.Stop() {
		c.timers.Done()
	}
	t.timer = nil
}

func (c *coordinator) name(rank int) string {
	if m := c.members[rank]; m != nil {
		return fmt.Sprintf("rank %d (%s)", rank, m.host)
	}
	return fmt.Sprintf("rank %d", rank)
}

// expire fails an incomplete turn. The failure names the missing ranks.
func (c *coordinator) expire(t *turn) {
	c.mu.Lock()
	if c.turn != t {
		c.mu.Unlock()
		return
	}
	var missing []string
	key, first := "", -1
	for r, come := range t.come {
		if !come {
			missing = append(missing, c.name(r))
		} else if first < 0 {
			key, first = t.keys[r], r
		}
	}
	c.mu.Unlock()
	if len(missing) > 20 {
		missing = append(missing[:20], fmt.Sprintf("and %d more", len(missing)-20))
	}
	text := fmt.Sprintf("meet: %s did not come to the coordinator within %v", strings.Join(missing, ", "), c.deadline)
	if t.number > 0 {
		text = fmt.Sprintf("meet: %s did not come to %s within %v", strings.Join(missing, ", "), quoted.Text(key), c.deadline)
	}
	c.fail(text + c.turned())
}

// welcome admits a rank that has proved that it knows the secret, and serves the rank
// until it leaves. A rank that does not fit into the job fails the job. The argument
// welcome sends the rank the welcome.
func (c *coordinator) welcome(ctx context.Context, conn net.Conn, h *hello, welcome func() error) {
	m := &member{rank: h.rank, host: printable([]byte(h.host)), conn: conn}
	c.mu.Lock()
	problem := ""
	who := fmt.Sprintf("rank %d (%s, from %v)", h.rank, m.host, conn.RemoteAddr())
	switch {
	case c.failed != nil: // a rank arriving later gets the first reason
		problem = c.failed.text
	case h.size != c.size:
		problem = fmt.Sprintf("meet: %s says that the job has %d ranks where %s says %d", who, h.size, c.name(0), c.size)
	case h.rank < 0 || h.rank >= c.size:
		problem = fmt.Sprintf("meet: %s is not in the job that %s has, want 0 to %d", who, c.name(0), c.size-1)
	case h.rank == 0:
		problem = fmt.Sprintf("meet: %s claims to be rank 0, which %s is", who, c.name(0))
	case c.members[h.rank] != nil:
		problem = fmt.Sprintf("meet: %s claims to be a rank that %s (from %v) is already; give each process a rank of its own", who, c.name(h.rank), c.members[h.rank].conn.RemoteAddr())
	default:
		c.members[h.rank] = m
	}
	c.mu.Unlock()
	if problem != "" {
		c.fail(problem)
		if welcome() == nil {
			conn.SetWriteDeadline(time.Now().Add(time.Second))
			frame.Write(conn, typeFailure, 0, []byte(clip(problem)))
			hangUp(conn)
			c.mu.Lock()
			c.told++
			c.mu.Unlock()
		}
		conn.Close()
		return
	}
	if err := welcome(); err != nil {
		c.part(m, "did not hear that it was welcome")
		conn.Close()
		return
	}
	c.mu.Lock()
	m.welcomed = true
	failed := c.failed
	c.mu.Unlock()
	if failed != nil { // the place has failed in the meantime, and fail has not told this rank
		send(conn, typeFailure, 0, []byte(failed.text))
	}
	c.serve(ctx, m)
}

// serve reads a rank's messages until it leaves.
func (c *coordinator) serve(ctx context.Context, m *member) {
	defer context.AfterFunc(ctx, func() { m.conn.SetReadDeadline(time.Unix(1, 0)) })()
	for {
		h, head, err := frame.Read(m.conn, maxGather+maxName+16)
		if ctx.Err() != nil {
			return // the place is being closed, which closes the connection
		}
		switch {
		case errors.Is(err, io.EOF):
			c.part(m, "has ended without a word")
			return
		case err != nil:
			c.part(m, fmt.Sprintf("cannot be heard: %v", err))
			return
		case h.Type == typeLeave:
			c.part(m, "has closed its place")
			m.conn.Close() // the rank waits for its end of the connection to close
			return
		case h.Type == typeFailure:
			c.fail(printable(head))
			return
		case h.Type != typeGather:
			c.fail(fmt.Sprintf("meet: %s sends frame %d of type %d, want type %d", c.name(m.rank), h.Seq, h.Type, typeGather))
			return
		}
		f := frame.NewFields(head)
		key, mine := f.String(maxName), f.Bytes(maxGather)
		if err := f.End(); err != nil {
			c.fail(fmt.Sprintf("meet: what %s passes to a gather: %v", c.name(m.rank), err))
			return
		}
		c.arrive(m.rank, h.Seq, key, mine)
	}
}

// part notes that a rank is gone. That is a failure as soon as another rank waits for it.
func (c *coordinator) part(m *member, how string) {
	c.mu.Lock()
	m.gone = how
	waited := c.turn.count > 0
	c.mu.Unlock()
	if waited {
		c.lost(m)
	}
}

func (c *coordinator) lost(m *member) {
	c.fail(fmt.Sprintf("meet: %s %s", c.name(m.rank), m.gone))
}

// arrive adds a rank's contribution to the gather. The last rank's call completes the
// gather and sends the result to all.
func (c *coordinator) arrive(rank int, number uint32, key string, mine []byte) (*turn, error) {
	c.mu.Lock()
	t := c.turn
	if c.failed != nil {
		c.mu.Unlock()
		return nil, c.failed
	}
	if t.come[rank] || number != t.number {
		c.mu.Unlock()
		return nil, c.fail(fmt.Sprintf("meet: %s comes to gather %d, %s, where gather %d is next", c.name(rank), number, quoted.Text(key), t.number))
	}
	t.come[rank], t.keys[rank], t.data[rank] = true, key, mine
	if t.count++; t.timer == nil {
		c.start(t)
	}
	for _, m := range c.members {
		if m != nil && m.gone != "" && !t.come[m.rank] {
			c.mu.Unlock()
			c.lost(m)
			return nil, c.failed
		}
	}
	if t.count < c.size {
		c.mu.Unlock()
		return t, nil
	}
	c.stop(t)
	total := 0
	for r, k := range t.keys {
		if k != t.keys[0] {
			text := fmt.Sprintf("meet: %s is at %s where %s is at %s", c.name(r), quoted.Text(k), c.name(0), quoted.Text(t.keys[0]))
			c.mu.Unlock()
			return nil, c.fail(text)
		}
		total += len(t.data[r])
	}
	if total > maxResult {
		c.mu.Unlock()
		return nil, c.fail(fmt.Sprintf("meet: gather %s has %d bytes, want at most %d", quoted.Text(key), total, maxResult))
	}
	c.turn = c.newTurn(t.number + 1)
	c.mu.Unlock()
	var result []byte
	for _, b := range t.data {
		result = frame.Bytes(result, b)
	}
	c.tell(typeResult, t.number, result)
	close(t.done)
	return t, nil
}

// fail breaks the place for all ranks, unless it is broken already, returning why the
// place is broken.
func (c *coordinator) fail(text string) error {
	c.mu.Lock()
	if c.failed != nil {
		c.mu.Unlock()
		return c.failed
	}
	c.failed = &failure{clip(text)}
	c.stop(c.turn)
	c.mu.Unlock()
	c.tell(typeFailure, 0, []byte(c.failed.text))
	close(c.down)
	return c.failed
}

// tell sends a frame to all ranks that have been welcomed, and returns when the frame has
// been written to all of them or could not be.
func (c *coordinator) tell(typ uint8, seq uint32, head []byte) {
	var conns []net.Conn
	c.mu.Lock()
	for _, m := range c.members {
		if m != nil && m.welcomed {
			conns = append(conns, m.conn)
		}
	}
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() { send(conn, typ, seq, head) })
	}
	wg.Wait()
}

// send writes a frame to a rank. It returns no error: serve notices that a rank is gone.
func send(conn net.Conn, typ uint8, seq uint32, head []byte) {
	conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	frame.Write(conn, typ, seq, head)
}

// gather is rank 0's Gather.
func (c *coordinator) gather(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error) {
	t, err := c.arrive(0, number, key, mine)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.done:
		return t.data, nil
	case <-c.down:
		return nil, c.failed
	case <-ctx.Done():
		cause := context.Cause(ctx)
		c.fail(departure(c.name(0), key, cause))
		return nil, fmt.Errorf("meet: %s: %w", quoted.Text(key), cause)
	}
}

// lingerTime is the time that a coordinator lingers: ranks launched together connect
// within a moment of each other.
const lingerTime = time.Second

// linger gives ranks not connected yet time to learn why there is no job: until all have,
// but no longer than most.
func (c *coordinator) linger(ctx context.Context, most time.Duration) {
	for end := time.Now().Add(most); time.Now().Before(end); {
		c.mu.Lock()
		come := c.told
		for _, m := range c.members {
			if m != nil {
				come++
			}
		}
		c.mu.Unlock()
		if come >= c.size || !pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// close ends the connections to all ranks. After a failure it first gives the ranks time to
// read why.
func (c *coordinator) close() {
	c.mu.Lock()
	c.stop(c.turn)
	c.mu.Unlock()
	c.timers.Wait()
	var wg sync.WaitGroup
	for _, m := range c.members {
		switch {
		case m == nil || m.conn == nil:
		case c.failed != nil:
			wg.Go(func() { hangUp(m.conn) })
		default:
			m.conn.Close()
		}
	}
	wg.Wait()
}

// client is the connection to the coordinator of a rank other than 0.
type client struct {
	rank, size int
	host       string
	conn       net.Conn
	deadline   time.Duration
}

// grace is the time that a rank waits longer than the coordinator, which has a better
// error: the coordinator knows the missing ranks.
const grace = 3 * time.Second

func (c *client) gather(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error) {
	all, err := c.exchange(ctx, number, key, mine)
	var f *failure
	switch {
	case err == nil:
		return all, nil
	case errors.As(err, &f):
		return nil, f
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		c.conn.SetWriteDeadline(time.Now().Add(time.Second))
		frame.Write(c.conn, typeFailure, number, []byte(clip(departure(fmt.Sprintf("rank %d (%s)", c.rank, c.host), key, cause))))
		return nil, fmt.Errorf("meet: %s: %w", quoted.Text(key), cause)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("meet: %s: rank 0 at %v does not answer within %v", quoted.Text(key), c.conn.RemoteAddr(), c.deadline+grace)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("meet: %s: rank 0 at %v has ended or closed its place", quoted.Text(key), c.conn.RemoteAddr())
	}
	return nil, fmt.Errorf("meet: %s: rank 0 at %v: %w", quoted.Text(key), c.conn.RemoteAddr(), err)
}

// departure describes a rank that has left a place. A rank ended by a signal has often
// been told to end, because another rank has failed.
func departure(name, key string, cause error) string {
	if errors.Is(cause, context.Canceled) {
		return fmt.Sprintf("meet: %s was told to end (%v) while it waited for others in %s", name, cause, quoted.Text(key))
	}
	return fmt.Sprintf("meet: %s left %s: %v", name, quoted.Text(key), cause)
}

func (c *client) exchange(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error) {
	defer bound(ctx, c.conn, c.deadline+grace)()
	// A write error means that the coordinator has closed the connection; its last message
	// may still be readable.
	sent := frame.Write(c.conn, typeGather, number, frame.Bytes(frame.String(nil, key), mine))
	_, head, err := read(c.conn, typeResult, number, min(maxResult, c.size*maxGather)+4*c.size)
	if err != nil {
		if sent != nil && !errors.As(err, new(*failure)) {
			err = sent
		}
		return nil, err
	}
	f := frame.NewFields(head)
	all := make([][]byte, c.size)
	for i := range all {
		all[i] = f.Bytes(maxGather)
	}
	return all, f.End()
}

func (c *client) close() {
	c.conn.SetWriteDeadline(time.Now().Add(time.Second))
	frame.Write(c.conn, typeLeave, 0, nil)
	hangUp(c.conn)
}
