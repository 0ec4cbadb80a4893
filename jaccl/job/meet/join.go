package meet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

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
	if o.Advertise != "" {
		// The port is known only when rank 0 listens. A wrong address is reported before that.
		if _, err := lookup(ctx, o.Advertise); err != nil {
			return fmt.Errorf("meet: advertised address %s: %w", quoted.Text(o.Advertise), err)
		}
	}
	ln, err := listen(ctx, o)
	if err != nil {
		return err
	}
	if e.addrs, err = advertised(ctx, o, ln, nil); err != nil {
		ln.Close()
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
	bind := o.Bind
	if bind == "" {
		bind = here.Addr().String()
	}
	ln, err := listenAt(ctx, bind, 0)
	if err != nil {
		return err
	}
	if e.addrs, err = advertised(ctx, o, ln, conn.LocalAddr()); err != nil {
		ln.Close()
		return err
	}
	p.door = newDoor(o, ln)
	p.door.open()
	if err := p.assemble(ctx, e); err != nil {
		return err
	}
	if len(p.roster[0].addrs) == 0 { // rank 0 advertises nothing: use the address that has worked
		p.roster[0].addrs = []netip.AddrPort{there}
	}
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

// advertised returns the addresses at which the other ranks find ln. near is this rank's
// end of its connection to the coordinator. It is nil on rank 0, which then advertises
// nothing but Options.Advertise: the others have already reached rank 0.
func advertised(ctx context.Context, o Options, ln net.Listener, near net.Addr) ([]netip.AddrPort, error) {
	at, err := endpoint(ln.Addr())
	if err != nil {
		return nil, err
	}
	var ips []netip.Addr
	switch {
	case o.Advertise != "":
		if ips, err = lookup(ctx, o.Advertise); err != nil {
			return nil, fmt.Errorf("meet: advertised address %s: %w", quoted.Text(o.Advertise), err)
		}
	case near == nil:
		return nil, nil
	default:
		here, err := endpoint(near)
		if err != nil {
			return nil, err
		}
		ip := at.Addr()
		switch {
		case ip.IsUnspecified():
			ip = here.Addr()
		case zoned(ip) != nil: // a listener's address has lost its zone
			ip = ip.WithZone(here.Addr().Zone())
		}
		ips = []netip.Addr{ip}
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip, at.Port())
	}
	return addrs[:min(len(addrs), maxAddrs)], nil
}
