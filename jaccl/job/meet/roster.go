package meet

import (
	"fmt"
	"net/netip"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/internal/quoted"
)

// maxAddrs is the largest number of addresses of a rank.
const maxAddrs = 64

// entry is a rank's description of itself when joining.
type entry struct {
	host    string
	machine machine
	addrs   []netip.AddrPort // the rank's address; none if the others already know it
	facts   []Fact
}

func (e *entry) encode() []byte {
	b := frame.String(nil, e.host)
	b = frame.String(b, e.machine.boot)
	b = frame.String(b, e.machine.memory)
	b = frame.String(b, e.machine.network)
	b = frame.Uint(b, uint64(len(e.addrs)))
	for _, a := range e.addrs {
		b = frame.String(b, a.String())
	}
	b = frame.Uint(b, uint64(len(e.facts)))
	for _, f := range e.facts {
		b = frame.String(frame.String(b, f.Name), f.Value)
	}
	return b
}

func decodeEntry(b []byte) (*entry, error) {
	f := frame.NewFields(b)
	e := &entry{host: printable(f.Bytes(maxName))}
	e.machine = machine{f.String(maxName), f.String(maxName), f.String(maxName)}
	for range f.Int(maxAddrs) {
		a, err := netip.ParseAddrPort(f.String(maxName))
		if err != nil {
			return nil, fmt.Errorf("meet: address of a rank: %w", err)
		}
		e.addrs = append(e.addrs, a)
	}
	for range f.Int(maxFacts) {
		e.facts = append(e.facts, Fact{f.String(maxName), f.String(maxFact)})
	}
	return e, f.End()
}

// roster is the entries of all ranks.
type roster []*entry

func decodeRoster(all [][]byte) (roster, error) {
	r := make(roster, len(all))
	for i, b := range all {
		e, err := decodeEntry(b)
		if err != nil {
			return nil, fmt.Errorf("meet: what rank %d says of itself: %w", i, err)
		}
		r[i] = e
	}
	return r, nil
}

func (r roster) name(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, r[rank].host) }

// check returns an error if the ranks disagree on a fact, or if a rank cannot be reached
// by another. It depends on the roster only, so all ranks get the same error.
func (r roster) check() error {
	for i := range r {
		if err := r.facts(i); err != nil {
			return err
		}
	}
	for i, e := range r {
		for j, o := range r {
			if i == j || e.machine.near(o.machine) || len(e.addrs) == 0 {
				continue
			}
			if reachable(e.addrs, false) == nil {
				return fmt.Errorf("meet: %s can only be reached at %v, which is another machine to %s; give the coordinator by an address that all machines reach",
					r.name(i), e.addrs[0].Addr(), r.name(j))
			}
		}
	}
	return nil
}

// facts returns an error if a rank's facts differ from rank 0's.
func (r roster) facts(rank int) error {
	a, b := r[0].facts, r[rank].facts
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(b) || i < len(a) && a[i].Name != b[i].Name:
			return fmt.Errorf("meet: %s says nothing of %s where %s has %s; run the same program on all ranks", r.name(rank), a[i].Name, r.name(0), quoted.Name(a[i].Value))
		case i >= len(a):
			return fmt.Errorf("meet: %s has %s %s, of which %s says nothing; run the same program on all ranks", r.name(rank), b[i].Name, quoted.Name(b[i].Value), r.name(0))
		case a[i] != b[i]:
			return fmt.Errorf("meet: ranks disagree on %s: %s has %s where %s has %s", a[i].Name, r.name(rank), quoted.Name(b[i].Value), r.name(0), quoted.Name(a[i].Value))
		}
	}
	return nil
}

// reachable returns the addresses that another rank can use: all of them if the rank is
// near, in the same network name space, and otherwise those that are not loopback.
func reachable(addrs []netip.AddrPort, near bool) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range addrs {
		if near || !a.Addr().IsLoopback() && !a.Addr().IsUnspecified() {
			out = append(out, a)
		}
	}
	return out
}
