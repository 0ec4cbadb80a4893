package meet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// connectTime is the time for one address of a host to answer before the host's next
// address is tried.
const connectTime = 3 * time.Second

// resolve returns the host of host:port, and its addresses with the port, in the
// resolver's order.
func resolve(ctx context.Context, hostport string) (host string, addrs []netip.AddrPort, err error) {
	host, port, err := split(hostport)
	if err != nil {
		return "", nil, err
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return "", nil, fmt.Errorf("meet: coordinator %s: %w", quoted.Text(hostport), err)
	}
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip, port))
	}
	return host, addrs, nil
}

// split returns the host and the port of host:port.
func split(hostport string) (host string, port uint16, err error) {
	if host, port, err = hostfile.SplitAddress(hostport); err != nil {
		err = fmt.Errorf("meet: coordinator %s: %w", quoted.Text(hostport), err)
	}
	return host, port, err
}

// lookup returns the addresses of host, a name or an address, without those that zoned
// refuses. It returns an error if none is left.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	var bad error
	usable := ips[:0]
	for _, ip := range ips {
		ip = ip.Unmap()
		if err := zoned(ip); err != nil {
			bad = err
			continue
		}
		usable = append(usable, ip)
	}
	if len(usable) == 0 && bad == nil {
		bad = fmt.Errorf("no address of %s", host)
	}
	if len(usable) == 0 {
		return nil, bad
	}
	return usable, nil
}

// zoned returns an error for a link-local address without its interface: such an address
// means another machine on every interface.
func zoned(ip netip.Addr) error {
	if ip.Is6() && ip.IsLinkLocalUnicast() && ip.Zone() == "" {
		return fmt.Errorf("%v is a link-local address, which says nothing without the interface; append %%interface, as in %v%%eth0, or use another address", ip, ip)
	}
	return nil
}

// interfaces returns the addresses of this machine.
func interfaces() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("meet: addresses of this machine: %w", err)
	}
	var addrs []netip.Addr
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return addrs, nil
}

// listen returns rank 0's listener: Options.Listener, or a new one at the coordinator's
// address, which must be an address of this machine. Some systems know their own name
// only as a loopback address, while other machines know it as another address; and a pod of
// a cluster starts before the cluster's name service knows it. For such a name listen opens
// the port at all addresses.
func listen(ctx context.Context, o Options) (net.Listener, error) {
	if o.Listener != nil {
		return o.Listener, nil
	}
	host, port, err := split(o.Coordinator)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, fmt.Errorf("meet: coordinator %s has port 0, which the other ranks cannot know; choose one, or pass rank 0 an open listener", quoted.Text(o.Coordinator))
	}
	_, addrs, err := resolve(ctx, o.Coordinator)
	var unknown *net.DNSError
	if errors.As(err, &unknown) && isOwnName(host, hostname()) {
		return listenAt(ctx, "", port)
	}
	if err != nil {
		return nil, err
	}
	own, err := interfaces()
	if err != nil {
		return nil, err
	}
	_, literal := netip.ParseAddr(host)
	named := literal != nil && !strings.EqualFold(host, "localhost")
	onlyLoopback := true
	for _, a := range addrs {
		onlyLoopback = onlyLoopback && a.Addr().IsLoopback()
	}
	if named && onlyLoopback {
		return listenAt(ctx, "", port)
	}
	var failed error
	for _, a := range addrs {
		if !a.Addr().IsUnspecified() && !a.Addr().IsLoopback() && !among(own, a.Addr()) {
			continue
		}
		ln, err := listenAt(ctx, a.Addr().String(), port)
		if err == nil {
			return ln, nil
		}
		failed = err
	}
	if failed != nil {
		return nil, failed
	}
	return nil, fmt.Errorf("meet: coordinator %s is %v, none of which is an address of this machine, %s, where rank 0 runs; want one of %v",
		quoted.Text(o.Coordinator), addresses(addrs), o.Host, own)
}

// isOwnName reports whether host is the name of the machine calling itself `own`, with
// another domain or none.
func isOwnName(host, own string) bool {
	host, _, _ = strings.Cut(host, ".")
	own, _, _ = strings.Cut(own, ".")
	return host != "" && strings.EqualFold(host, own)
}

func addresses(addrs []netip.AddrPort) []netip.Addr {
	ips := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		ips[i] = a.Addr()
	}
	return ips
}

// among reports whether ip is one of own. It does not compare zones, which own lacks.
func among(own []netip.Addr, ip netip.Addr) bool {
	for _, o := range own {
		if o.WithZone("") == ip.WithZone("") {
			return true
		}
	}
	return false
}

func listenAt(ctx context.Context, host string, port uint16) (net.Listener, error) {
	var c net.ListenConfig
	ln, err := c.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		return nil, fmt.Errorf("meet: %w", err)
	}
	return ln, nil
}

// endpoint returns a as an address and a port.
func endpoint(a net.Addr) (netip.AddrPort, error) {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return p, fmt.Errorf("meet: %v is no address of TCP", a)
	}
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
}

// dial connects to the first of addrs that answers with a connection accepted by try. If
// there is none, the error joins the errors of all addresses.
func dial(ctx context.Context, addrs []netip.AddrPort, try func(net.Conn) error) (net.Conn, error) {
	var failed []error
	for _, a := range addrs {
		d := net.Dialer{Timeout: connectTime}
		conn, err := d.DialContext(ctx, "tcp", a.String())
		if err == nil {
			if err = try(conn); err == nil {
				return conn, nil
			}
			conn.Close()
			err = fmt.Errorf("%v: %w", a, err)
		}
		failed = append(failed, err)
		if cutOff(ctx) {
			break
		}
	}
	return nil, errors.Join(failed...)
}

// cutOff reports whether ctx has ended, or its deadline has passed. A dialer looks at the
// clock, and may give up a moment before ctx does: its "i/o timeout" is then no reason of its
// own.
func cutOff(ctx context.Context) bool {
	d, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(d)
}

// pause waits for d, or until ctx ends. It reports whether d has passed.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
