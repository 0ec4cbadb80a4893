package meet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Join returns this rank's place in the job. It blocks until all ranks have joined, up to
// the deadline; the ranks may start in any order. The caller closes the place. All ranks
// that have reached the coordinator get the same error. It names the ranks, with their
// hosts, that are missing, that claim the same rank, that have another size of the job,
// or that have other facts. A rank with a wrong secret gets an error at once.
func Join(ctx context.Context, opts Options) (*Place, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	p := newPlace(o)
	e := &entry{host: o.Host, machine: thisMachine(), facts: o.Facts}
	if o.Size == 1 {
		if o.Listener != nil {
			o.Listener.Close()
		}
		p.roster, p.all = roster{e}, alone
		return p, nil
	}
	if err := o.secret(); err != nil {
		return nil, err
	}
	if o.Rank == 0 {
		err = p.lead(ctx, o, e)
	} else {
		err = p.follow(ctx, o, e)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func newPlace(o Options) *Place {
	return &Place{
		rank: o.Rank, size: o.Size, deadline: o.Deadline, closing: make(chan struct{}),
		hello: hello{job: o.Job, rank: o.Rank, size: o.Size, host: o.Host, meeting: o.Meetings.begin(o.Rank)},
	}
}

// alone is the gather of a job of one rank.
func alone(ctx context.Context, _ uint32, key string, mine []byte) ([][]byte, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("meet: %s: %w", quoted.Text(key), context.Cause(ctx))
	}
	return [][]byte{mine}, nil
}

// lead is Join of rank 0.
func (p *Place) lead(ctx context.Context, o Options, e *entry) error {
	ln, err := listen(ctx, o)
	if err != nil {
		return err
	}
	c := newCoordinator(o.Size, o.Host, o.Deadline)
	p.door = newDoor(o, ln)
	p.door.join, p.door.meeting = c.welcome, p.hello.meeting
	c.turned = p.door.turned
	p.all, p.hangUp = c.gather, c.close
	p.door.open()
	err = p.assemble(ctx, e)
	if err != nil && ctx.Err() == nil {
		c.linger(ctx, o.linger)
	}
	return err
}

// follow is Join of the other ranks.
func (p *Place) follow(ctx context.Context, o Options, e *entry) error {
	conn, err := p.find(ctx, o)
	if err != nil {
		return err
	}
	p.hello.meeting = o.Meetings.last
	c := &client{rank: o.Rank, size: o.Size, host: o.Host, conn: conn, deadline: o.Deadline}
	p.all, p.hangUp, p.coordinator = c.gather, c.close, conn
	here, err := endpoint(conn.LocalAddr())
	if err != nil {
		return err
	}
	there, err := endpoint(conn.RemoteAddr())
	if err != nil {
		return err
	}
	p.zone = here.Addr().Zone()
	ln, err := listenAt(ctx, here.Addr().String(), 0)
	if err != nil {
		return err
	}
	at, err := endpoint(ln.Addr())
	if err != nil {
		ln.Close()
		return err
	}
	e.addrs = []netip.AddrPort{netip.AddrPortFrom(here.Addr(), at.Port())} // a listener's address has lost its zone
	p.door = newDoor(o, ln)
	p.door.open()
	if err := p.assemble(ctx, e); err != nil {
		return err
	}
	p.roster[0].addrs = []netip.AddrPort{there} // rank 0 sends no address: use the one that has worked
	return nil
}

// patient is the time that a rank waits for the coordinator before calling
// Options.Waiting.
const patient = 3 * time.Second

// find connects to the coordinator. It retries until the coordinator is there, or the
// deadline passes.
func (p *Place) find(ctx context.Context, o Options) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Deadline, fmt.Errorf("no answer within %v", o.Deadline))
	defer cancel()
	h := p.hello
	h.purpose = joining
	var last error
	var said bool
	begin := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		// The name is resolved again each time: it may become known only when rank 0's machine
		// has started.
		_, addrs, err := resolve(ctx, o.Coordinator)
		var name *net.DNSError
		if err != nil && !errors.As(err, &name) {
			return nil, err
		}
		for _, a := range addrs {
			if a.Addr().IsUnspecified() {
				return nil, fmt.Errorf("meet: coordinator %s is no address that can be dialed; name the machine of rank 0", quoted.Text(o.Coordinator))
			}
			if a.Port() == 0 {
				return nil, fmt.Errorf("meet: coordinator %s has port 0; want the one that rank 0 listens at", quoted.Text(o.Coordinator))
			}
		}
		var conn net.Conn
		if err == nil {
			conn, err = dial(ctx, addrs, func(c net.Conn) error {
				meeting, err := knock(ctx, c, o.Secret, &h)
				if err == nil {
					err = past(h.meeting, meeting)
				}
				if err == nil {
					o.Meetings.last = meeting
				}
				return err
			})
		}
		if err == nil {
			return conn, nil
		}
		// Another job may still have the port for some time, so other refusals are
		// retried. A wrong secret stays wrong.
		var r *refusal
		if errors.As(err, &r) && r.text == errSecret.Error() {
			return nil, fmt.Errorf("meet: rank %d: the coordinator at %s knows another secret; give all ranks of the job the same one", o.Rank, o.Coordinator)
		}
		if last == nil || !cutOff(ctx) {
			last = err // an error of the attempt, not of its interruption
		}
		if now := time.Now(); !said && now.Sub(begin) >= patient {
			said = true
			o.Waiting(fmt.Sprintf("rank %d waits for rank 0 at %s, until %s: %s", o.Rank, o.Coordinator, begin.Add(o.Deadline).Format(time.TimeOnly), strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
		if !pause(ctx, wait) {
			return nil, fmt.Errorf("meet: rank %d did not reach the coordinator, rank 0, at %s: %w (%v)", o.Rank, o.Coordinator, context.Cause(ctx), last)
		}
	}
}

// assemble gathers the entries of all ranks into the roster, checking it.
func (p *Place) assemble(ctx context.Context, e *entry) error {
	all, err := p.gather(ctx, joining, e.encode())
	if err != nil {
		return err
	}
	if p.roster, err = decodeRoster(all); err != nil {
		return err
	}
	return p.roster.check()
}

func newDoor(o Options, ln net.Listener) *door {
	return &door{ln: ln, rank: o.Rank, size: o.Size, job: o.Job, secret: o.Secret, patience: handshakeTime, strangers: strangers{log: o.Log}}
}

// Over is Join for ranks that can gather already, for example with MPI: gather returns
// every rank's data, by rank. Rank 0 draws the job's id and secret and passes them to the
// others with gather, so the data of gather must be secret from others. The Options'
// Rank, Size, Coordinator, Listener, Job and Secret are not used. A rank listens at all
// addresses of its machine. The other ranks dial all of them except for the link-local ones.
//
// gather has its own deadline, and must return when its ctx ends. The Place uses gather
// until the Place is closed.
func Over(ctx context.Context, rank, size int, gather func(ctx context.Context, key string, mine []byte) ([][]byte, error), opts Options) (*Place, error) {
	opts.Rank, opts.Size, opts.Listener = rank, size, nil
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	p := newPlace(o)
	e := &entry{host: o.Host, machine: thisMachine(), facts: o.Facts}
	if size == 1 {
		p.roster, p.all = roster{e}, alone
		return p, nil
	}
	p.all = compared(size, gather)
	if err := p.over(ctx, o, e); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Place) over(ctx context.Context, o Options, e *entry) error {
	var drawn []byte
	if o.Rank == 0 {
		drawn = make([]byte, len(o.Job)+32)
		if _, err := rand.Read(drawn); err != nil {
			return err
		}
	}
	all, err := p.gather(ctx, "secret", drawn)
	if err != nil {
		return err
	}
	if len(all[0]) != len(o.Job)+32 {
		return fmt.Errorf("meet: rank 0 gave a job and a secret of %d bytes, want %d", len(all[0]), len(o.Job)+32)
	}
	o.Job, o.Secret = uuid.UUID(all[0][:len(o.Job)]), bytes.Clone(all[0][len(o.Job):])
	p.hello.job = o.Job
	ln, err := listenAt(ctx, "", 0)
	if err != nil {
		return err
	}
	at, err := endpoint(ln.Addr())
	if err == nil {
		e.addrs, err = everywhere(at.Port())
	}
	if err != nil {
		ln.Close()
		return err
	}
	p.door = newDoor(o, ln)
	p.door.open()
	return p.assemble(ctx, e)
}

// everywhere returns the addresses of this machine with a port: without the link-local
// ones, and loopback last.
func everywhere(port uint16) ([]netip.AddrPort, error) {
	ips, err := interfaces()
	if err != nil {
		return nil, err
	}
	var addrs, loopback []netip.AddrPort
	for _, ip := range ips {
		switch {
		case ip.IsLoopback():
			loopback = append(loopback, netip.AddrPortFrom(ip, port))
		case !ip.IsLinkLocalUnicast():
			addrs = append(addrs, netip.AddrPortFrom(ip, port))
		}
	}
	addrs = append(addrs, loopback...)
	return addrs[:min(len(addrs), maxAddrs)], nil
}

// compared returns a gather that calls the given one and checks the result: all ranks must
// have passed the same key and the same number of the gather.
func compared(size int, gather func(ctx context.Context, key string, mine []byte) ([][]byte, error)) func(context.Context, uint32, string, []byte) ([][]byte, error) {
	return func(ctx context.Context, number uint32, key string, mine []byte) ([][]byte, error) {
		all, err := gather(ctx, key, frame.Bytes(frame.String(frame.Uint(nil, uint64(number)), key), mine))
		if err != nil {
			return nil, fmt.Errorf("meet: %s: %w", quoted.Text(key), err)
		}
		if len(all) != size {
			return nil, fmt.Errorf("meet: %s: the gather returned %d parts, want %d", quoted.Text(key), len(all), size)
		}
		var zero string
		var first int
		var bad error // the first one
		out := make([][]byte, size)
		for r, b := range all {
			f := frame.NewFields(b)
			n, k := f.Int(1<<32-1), f.String(maxName)
			out[r] = f.Bytes(maxGather)
			if err := f.End(); err != nil {
				return nil, fmt.Errorf("meet: %s: what rank %d passes: %w", quoted.Text(key), r, err)
			}
			if r == 0 {
				zero, first = k, n
			}
			if bad == nil && (k != zero || n != first) {
				bad = fmt.Errorf("meet: rank %d is at %s, number %d, where rank 0 is at %s, number %d", r, quoted.Text(k), n, quoted.Text(zero), first)
			}
		}
		if bad != nil {
			return nil, bad
		}
		return out, nil
	}
}
