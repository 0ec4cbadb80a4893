package world

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// meetRing is MLX's ring of ranks that no file gives addresses to: they meet, and tell
// each other where they listen. If one can not, all know. There is no other transport to
// fall back to: TCP, of which the ring is made, would fail too.
func (s *state) meetRing(ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	place, err := s.meet(ctx, job)
	if err != nil {
		return nil, err
	}
	var c jaccl.Communicator
	nodes, listener, err := ringNodes(ctx, place)
	if err == nil {
		var listeners []net.Listener
		if listener != nil {
			listeners = append(listeners, listener)
		}
		c, err = ring.ConnectListening(ctx, nodes, job.Rank, listeners, jaccl.Options{Deadline: s.cfg.Deadline})
	}
	missing, gone := absent(ctx, place, "gomoe: who has a ring", err)
	if gone == nil && missing == "" {
		return c, nil
	}
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	if gone != nil {
		return nil, errors.Join(err, gone)
	}
	return nil, &explained{"transport ring: " + missing, err}
}

// ringNodes opens a port of this rank's, at the address by which the rank before it
// reaches it, and returns those of all ranks. A rank that is alone listens nowhere.
func ringNodes(ctx context.Context, site link.Site) (hostfile.Nodes, net.Listener, error) {
	conns, err := site.Dial(ctx, "gomoe: addresses of the ring")
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
	all, gone := site.Gather(ctx, "gomoe: nodes of the ring", []byte(mine))
	nodes := make(hostfile.Nodes, len(all))
	for r, b := range all {
		nodes[r] = []string{string(b)}
	}
	if err = errors.Join(err, gone); err == nil {
		err = nodes.Check()
	}
	if err != nil && l != nil {
		l.Close()
	}
	return nodes, l, err
}

// absent tells all ranks whether this one has met with an error, and returns what the
// ranks say that have, "" if none has.
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
	missing := ""
	for r, b := range all {
		if len(b) > 0 {
			if missing != "" {
				missing += "; "
			}
			missing += fmt.Sprintf("rank %d (%s): %s", r, site.Host(r), b)
		}
	}
	return missing, nil
}
