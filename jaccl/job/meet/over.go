package meet

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Over is Join for ranks that can gather already, for example with MPI: gather returns
// every rank's data, by rank. Rank 0 draws the job's id and secret and passes them to the
// others with gather, so the data of gather must be secret from others. The Options'
// Rank, Size, Coordinator, Listener, Job and Secret are not used. A rank listens at all
// addresses of its machine, or at Bind. It advertises all of them except for the
// link-local ones, or Advertise.
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
	ln, err := listenAt(ctx, o.Bind, 0)
	if err != nil {
		return err
	}
	e.addrs, err = advertised(ctx, o, ln, ln.Addr())
	if at, bad := endpoint(ln.Addr()); err == nil && bad == nil && o.Advertise == "" && at.Addr().IsUnspecified() {
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
