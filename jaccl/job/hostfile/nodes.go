package hostfile

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// MaxNodesBytes is the largest size of a file of nodes in bytes. That is enough for
// ten thousand ranks with a few addresses each.
const MaxNodesBytes = 1 << 20

// Nodes are the addresses of MLX's ring, host:port, by rank. At its addresses a rank
// waits for the connections of the rank before it. Every rank has as many addresses
// as there are connections between two neighbours.
//
// Source: MLX_HOSTFILE of mlx/distributed/ring.
type Nodes [][]string

// ParseNodes reads the contents of the file named by MLX_HOSTFILE: [["10.0.0.1:5000"],
// ["10.0.0.2:5000"]]. A host is a name, an IPv4 address, or an IPv6 address in brackets;
// MLX's own ranks do not accept the brackets. The returned nodes have passed Check.
// Errors name the rank with the faulty address.
func ParseNodes(data []byte) (Nodes, error) {
	if len(data) > MaxNodesBytes {
		return nil, fmt.Errorf("hostfile: nodes: %d bytes, want at most %d", len(data), MaxNodesBytes)
	}
	var nodes Nodes
	if err := strictjson.UnmarshalOnce(data, &nodes); err != nil {
		return nil, fmt.Errorf(`hostfile: nodes: %w, want a list of addresses for each rank: [["10.0.0.1:5000"], ["10.0.0.2:5000"]]`, err)
	}
	if err := nodes.Check(); err != nil {
		return nil, err
	}
	return nodes, nil
}

// Check returns nil if a ring can be made of the nodes; otherwise it returns the first
// reason why not.
func (n Nodes) Check() error {
	if len(n) == 0 {
		return fmt.Errorf("hostfile: nodes: no ranks, want at least one")
	}
	type place struct{ rank, index int }
	seen := map[string]place{}
	for rank, addresses := range n {
		if len(addresses) == 0 {
			return fmt.Errorf("hostfile: nodes: rank %d has no address, want at least one", rank)
		}
		if len(addresses) != len(n[0]) {
			return fmt.Errorf("hostfile: nodes: rank %d has %d addresses and rank 0 has %d, want one for each connection, of which all neighbours have the same number", rank, len(addresses), len(n[0]))
		}
		for i, a := range addresses {
			if err := checkAddress(a); err != nil {
				return fmt.Errorf("hostfile: nodes: address %d of rank %d: %w", i, rank, err)
			}
			if at, twice := seen[a]; twice {
				return fmt.Errorf("hostfile: nodes: address %d of rank %d is %s, which is address %d of rank %d too, want a port of its own for each", i, rank, quoted.Plain(a), at.index, at.rank)
			}
			seen[a] = place{rank, i}
		}
	}
	return nil
}

func checkAddress(a string) error {
	host, port, err := SplitAddress(a)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", quoted.Text(a), err)
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xfffd }):
		return fmt.Errorf("%s has a host with blanks or control characters", quoted.Text(a))
	case port == 0:
		return fmt.Errorf("%s has the port 0, want 1 to 65535", quoted.Text(a))
	}
	return nil
}

// SplitAddress returns the host and the port of host:port. Port 0 is permitted.
func SplitAddress(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(text, 10, 16)
	switch {
	case err != nil:
		return "", 0, errors.New("want host:port, and [host]:port for an IPv6 address, such as 10.0.0.1:29500 or [fe80::1]:29500")
	case host == "":
		return "", 0, errors.New("no host; name a machine by which the others reach it, such as 10.0.0.1:29500")
	case bad != nil:
		return "", 0, fmt.Errorf("port %s, want a number up to 65535", quoted.Text(text))
	}
	return host, uint16(n), nil
}

// IsLocal reports whether host, a name or an address without a port, is this machine on
// every machine: localhost or a loopback address.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
