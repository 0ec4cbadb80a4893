package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// overRing connects the ranks by MLX's ring, with the addresses that a file gives; without
// a file the ranks meet and tell each other theirs.
func overRing(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	if job.Hostfile == "" && job.Coordinator != "" {
		return s.meetRing(ctx, job)
	}
	nodes, err := nodesOf(job)
	if err != nil {
		return s.orTCP(ctx, job, nil, err)
	}
	c, err := ring.Connect(ctx, nodes, job.Rank, jaccl.Options{Deadline: s.deadline})
	return s.orTCP(ctx, job, c, err)
}

// meetRing connects ranks by MLX's ring without a file of addresses.
func (s *state) meetRing(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	return s.meetPorts(ctx, job, func(place link.Site, nodes hostfile.Nodes, l net.Listener) (jaccl.Communicator, error) {
		if err := nodes.Check(); err != nil {
			return nil, errors.Join(err, closed(l))
		}
		var listeners []net.Listener
		if l != nil {
			listeners = append(listeners, l)
		}
		return ring.ConnectListening(ctx, nodes, job.Rank, listeners, jaccl.Options{Deadline: s.deadline})
	})
}

// closed closes a listener, if there is one.
func closed(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// meetPorts is for protocols of MLX in which ranks have to know addresses beforehand: the
// ranks meet, tell each other where they listen, and then join connects them. join owns the
// listener. If one rank cannot join, all ranks get an error. There is no fallback: TCP, by
// which the ranks meet, would fail, too.
func (s *state) meetPorts(ctx context.Context, job environ.Job, join func(link.Site, hostfile.Nodes, net.Listener) (jaccl.Communicator, error)) (jaccl.Communicator, error) {
	place, err := s.meet(ctx, job)
	if err != nil {
		return nil, err
	}
	var c jaccl.Communicator
	nodes, listener, err := ports(ctx, place)
	if err == nil {
		c, err = join(place, nodes, listener)
	}
	missing, gone := absent(ctx, place, "gomoe: who has joined", err)
	if gone == nil && missing == "" {
		return c, nil
	}
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	if gone != nil {
		return nil, errors.Join(err, gone)
	}
	return nil, &explained{"transport " + s.info.Transport + ": " + missing, err}
}

// ports opens a port of this rank, at the address by which the preceding rank reaches this
// one, and returns the addresses of all ranks.
func ports(ctx context.Context, site link.Site) (hostfile.Nodes, net.Listener, error) {
	conns, err := site.Dial(ctx, "gomoe: addresses of ranks")
	if err != nil {
		return nil, nil, err
	}
	host := "127.0.0.1"
	for r, c := range conns {
		if c == nil {
			continue
		}
		if r == (site.Rank()+site.Size()-1)%site.Size() {
			host, _, err = net.SplitHostPort(c.LocalAddr().String())
		}
		c.Close()
	}
	var l net.Listener
	var mine string
	if err == nil {
		var lc net.ListenConfig
		if l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0")); err == nil {
			mine = l.Addr().String()
		}
	}
	all, gone := site.Gather(ctx, "gomoe: ports of ranks", []byte(mine))
	nodes := make(hostfile.Nodes, len(all))
	for r, b := range all {
		nodes[r] = []string{string(b)}
	}
	if err = errors.Join(err, gone); err != nil {
		return nil, nil, errors.Join(err, closed(l))
	}
	return nodes, l, nil
}

// absent tells all ranks whether this rank has an error, and returns a text with the errors
// of all ranks, each error once; "" if no rank has one.
func absent(ctx context.Context, site link.Site, key string, err error) (string, error) {
	text := ""
	if err != nil {
		text = err.Error()
		text = text[:min(len(text), 1000)]
	}
	all, err := site.Gather(ctx, key, []byte(text))
	if err != nil {
		return "", err
	}
	var missing []string
	for r, b := range all {
		if len(b) == 0 || slices.ContainsFunc(all[:r], func(o []byte) bool { return string(o) == string(b) }) {
			continue
		}
		who := ""
		for o := r; o < len(all); o++ {
			if string(all[o]) == string(b) {
				who += fmt.Sprintf(", rank %d (%s)", o, site.Host(o))
			}
		}
		missing = append(missing, strings.TrimPrefix(who, ", ")+": "+string(b))
	}
	return strings.Join(missing, "; "), nil
}

// nodesOf reads the addresses of MLX's ring.
func nodesOf(job environ.Job) (hostfile.Nodes, error) {
	text, err := job.ReadNodes()
	if err != nil {
		return nil, err
	}
	n, err := hostfile.ParseNodes(text)
	if err != nil {
		return nil, err
	}
	if len(n) != job.Size {
		return nil, fmt.Errorf("addresses of %d ranks of a ring for a job of %d; is the file that of this job?", len(n), job.Size)
	}
	return n, nil
}
