//go:build linux || darwin

package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/wait"
)

const (
	// few is the largest number of sockets that are tried one by one while nothing moves.
	few = 4
	// pieces is the largest number of buffers that one system call is given.
	pieces = 64
)

// pace returns the polling policy of an exchange before sleeping: waking up takes as long
// as tens of polls. Other goroutines of this process, which may be ranks, get a turn only
// after several polls, because after a turn this goroutine may run on another thread:
// with a turn after every poll, 4 KiB each way with a peer took 23 µs rather than
// 17. If yielding the core has taken long, exchanges sleep at once for a while: a
// sleeping rank is woken as soon as a peer answers, but a rank that yielded its core
// waits for its turn.
func pace() wait.Policy {
	return wait.Policy{Yield: 50 * time.Microsecond, Offer: wait.Yield, YieldTurns: 16, Late: 200 * time.Microsecond, Calm: 64}
}

// poller is a mover using calls that do not block. It has the sockets to itself: the
// poller of Go's runtime does not know them.
type poller struct {
	fds   []int         // by rank, -1 for this rank
	polls []unix.PollFd // the sockets that wait waits for, and last the pipe
	who   []int         // for each socket in polls: the peer's index in active
	ready []readiness   // by index in active
	pace  wait.Waiter

	looked time.Time // when apart last looked

	stop   atomic.Bool // interrupt was called
	mu     sync.Mutex
	wakeR  int // the ends of a pipe: writing to wakeW ends a wait
	wakeW  int
	closed bool
}

// readiness tells which calls are worth trying on a socket.
type readiness struct{ read, write bool }

// sockets returns a mover of conns, by rank. If there is no error, the mover owns them.
func sockets(conns []net.Conn) (mover, error) {
	for _, c := range conns {
		if _, ok := c.(*net.TCPConn); c != nil && !ok {
			return newStreams(conns)
		}
	}
	p := &poller{fds: make([]int, len(conns)), pace: wait.New(pace())}
	for i := range p.fds {
		p.fds[i] = -1
	}
	fail := func(err error) (mover, error) {
		for _, fd := range p.fds {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
		return nil, err
	}
	for i, c := range conns {
		if c == nil {
			continue
		}
		fd, err := duplicate(c.(*net.TCPConn))
		if err != nil {
			return fail(err)
		}
		p.fds[i] = fd
	}
	var pipe [2]int
	syscall.ForkLock.RLock()
	err := unix.Pipe(pipe[:])
	if err == nil {
		unix.CloseOnExec(pipe[0])
		unix.CloseOnExec(pipe[1])
	}
	syscall.ForkLock.RUnlock()
	if err == nil {
		p.wakeR, p.wakeW = pipe[0], pipe[1]
		err = errors.Join(unix.SetNonblock(pipe[0], true), unix.SetNonblock(pipe[1], true))
	}
	if err != nil {
		return fail(err)
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	return p, nil
}

// duplicate returns another descriptor of the socket. When c is closed, the poller of Go's
// runtime forgets the socket, but the new descriptor stays open.
func duplicate(c *net.TCPConn) (fd int, err error) {
	if err := c.SetNoDelay(true); err != nil {
		return -1, err
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	bad := rc.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(bad, err)
}

func (p *poller) exchange(ctx context.Context, active []*peer, heads func() error) error {
	if cap(p.ready) < len(active) {
		p.ready = make([]readiness, len(active))
	}
	p.ready = p.ready[:len(active)]
	for i := range p.ready {
		p.ready[i] = readiness{true, true}
	}
	done := ctx.Done()
	armed := false
	p.pace.Begin()
	for {
		select {
		case <-done:
			return context.Cause(ctx)
		default:
		}
		if p.stop.Load() {
			return errClosed
		}
		moved, waiting, left := false, false, false
		for i, peer := range active {
			if peer.sending() && p.ready[i].write {
				n, more, err := p.write(peer)
				if err != nil {
					return peer.error("sending", err)
				}
				p.ready[i].write = more
				moved = moved || n > 0
			}
			if peer.receiving() && p.ready[i].read {
				n, more, err := p.read(peer)
				if err != nil {
					return err
				}
				p.ready[i].read = more
				moved = moved || n > 0
			}
			// This rank's head goes to every peer, even if the rank then refuses a peer's head.
			waiting = waiting || peer.stage == heading || peer.overhead > 0
			left = left || peer.sending() || peer.stage != nothing
		}
		if heads != nil && !waiting {
			if err := heads(); err != nil {
				return err
			}
			heads, moved = nil, true
			for i, peer := range active {
				p.ready[i].read = true
				left = left || peer.stage != nothing
			}
		}
		if !left && heads == nil {
			return nil
		}
		if moved {
			p.pace.Moved()
			continue
		}
		timeout := 0
		switch p.pace.Idle() {
		case wait.First: // another core may have nothing to do
			p.apart(active, p.pace.Since())
		case wait.Sleep:
			runtime.Gosched() // other goroutines get a turn before the thread sleeps
			timeout = -1
			if !armed && done != nil {
				armed = true
				defer context.AfterFunc(ctx, p.wake)()
			}
		}
		if err := p.wait(active, timeout); err != nil {
			return err
		}
	}
}

// write sends a piece of a peer's remaining data. n is the number of bytes, -1 if the
// socket accepts none now. more reports whether the socket may accept more right away.
func (p *poller) write(peer *peer) (n int, more bool, err error) {
	n, asked, err := writeSome(p.fds[peer.rank], peer.out)
	if n > 0 {
		peer.wrote(n)
	}
	return n, n == asked, err
}

// read reads a piece of a peer's data. n is the number of bytes, 0 if there are none now.
// more reports whether there may be more to read.
func (p *poller) read(peer *peer) (n int, more bool, err error) {
	fd := p.fds[peer.rank]
	var asked int
	if peer.stage == heading {
		room := peer.room()
		asked = len(room)
		n, err = again(func() (int, error) { return read(fd, room) })
	} else {
		n, asked, err = readSome(fd, peer.in)
	}
	switch {
	case err != nil:
		return 0, false, peer.error("receiving", err)
	case n == 0:
		return 0, false, peer.error("receiving", io.EOF)
	case n < 0:
		return 0, false, nil
	case peer.stage == heading:
		err = peer.filled(n)
	default:
		peer.got(n)
	}
	return n, n == asked, err
}

// again repeats a call interrupted by a signal, returning -1 for a call that would block.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return -1, nil
		}
		return 0, err
	}
}

// piece puts the first buffers of bufs into to, with at most as many bytes as the constant
// most. It returns these buffers and the number of their bytes.
func piece(bufs [][]byte, to *[pieces][]byte) (some [][]byte, n int) {
	k := 0
	for k < len(bufs) && k < pieces && n < most {
		to[k] = bufs[k][:min(len(bufs[k]), most-n)]
		n += len(to[k])
		k++
	}
	return to[:k], n
}

func writeSome(fd int, bufs [][]byte) (n, asked int, err error) {
	if len(bufs) == 1 {
		b := bufs[0][:min(len(bufs[0]), most)]
		n, err = again(func() (int, error) { return write(fd, b) })
		return n, len(b), err
	}
	var to [pieces][]byte
	some, asked := piece(bufs, &to)
	n, err = again(func() (int, error) { return writev(fd, some) })
	return n, asked, err
}

func readSome(fd int, bufs [][]byte) (n, asked int, err error) {
	if len(bufs) == 1 {
		b := bufs[0][:min(len(bufs[0]), most)]
		n, err = again(func() (int, error) { return read(fd, b) })
		return n, len(b), err
	}
	var to [pieces][]byte
	some, asked := piece(bufs, &to)
	n, err = again(func() (int, error) { return readv(fd, some) })
	return n, asked, err
}

// wait determines the ready sockets. With a timeout of -1 it sleeps until one is ready or
// wake is called. With a timeout of 0 it does not sleep, and assumes that all sockets are
// ready if they are few.
func (p *poller) wait(active []*peer, timeout int) error {
	p.polls, p.who = p.polls[:0], p.who[:0]
	for i, peer := range active {
		var events int16
		if peer.sending() {
			events |= unix.POLLOUT
		}
		if peer.receiving() {
			events |= unix.POLLIN
		}
		if events != 0 {
			p.polls = append(p.polls, unix.PollFd{Fd: int32(p.fds[peer.rank]), Events: events})
			p.who = append(p.who, i)
		}
	}
	if timeout == 0 && len(p.polls) <= few {
		for _, i := range p.who {
			p.ready[i] = readiness{true, true}
		}
		return nil
	}
	p.polls = append(p.polls, unix.PollFd{Fd: int32(p.wakeR), Events: unix.POLLIN})
	if _, err := unix.Poll(p.polls, timeout); err != nil && err != unix.EINTR {
		return err
	}
	for k, i := range p.who {
		// An error condition shows in the read or write that is tried next.
		e := p.polls[k].Revents
		p.ready[i].read = p.ready[i].read || e&^unix.POLLOUT != 0
		p.ready[i].write = p.ready[i].write || e&^unix.POLLIN != 0
	}
	if p.polls[len(p.who)].Revents != 0 {
		var drop [64]byte
		unix.Read(p.wakeR, drop[:])
	}
	return nil
}

// wake ends the wait in progress, or the next one if there is none in progress.
func (p *poller) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		unix.Write(p.wakeW, []byte{0}) // a full pipe wakes as well
	}
}

func (p *poller) interrupt() {
	p.stop.Store(true)
	p.wake()
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, fd := range p.fds {
		if fd >= 0 {
			unix.Shutdown(fd, unix.SHUT_WR)
			unix.Close(fd)
		}
	}
	unix.Close(p.wakeR)
	unix.Close(p.wakeW)
}
