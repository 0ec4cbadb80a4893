package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/mlx/ring"
)

// overRing connects the ranks by MLX's ring. If a file gives the addresses, other ranks
// may be processes of MLX; otherwise the ranks first meet.
func overRing(s *state, ctx context.Context, job environ.Job) (jaccl.Communicator, error) {
	if job.Hostfile == "" && job.Coordinator != "" {
		return s.met(ctx, job, func(place link.Site) (jaccl.Communicator, error) {
			return ring.Join(ctx, place, jaccl.Options{Deadline: s.deadline})
		})
	}
	nodes, err := nodesOf(job)
	if err != nil {
		return s.orTCP(ctx, job, nil, err)
	}
	c, err := ring.Connect(ctx, nodes, job.Rank, jaccl.Options{Deadline: s.deadline})
	return s.orTCP(ctx, job, c, err)
}

// met is for protocols of MLX without given addresses of the ranks: the ranks meet, and
// then join connects them over connections of the site, on which both sides have proved
// that they belong to the job. If one rank cannot join, all ranks get an error. There is
// no fallback: TCP, used for meeting, would fail too.
func (s *state) met(ctx context.Context, job environ.Job, join func(link.Site) (jaccl.Communicator, error)) (jaccl.Communicator, error) {
	place, err := s.meet(ctx, job)
	if err != nil {
		return nil, err
	}
	c, err := join(place)
	missing, gone := absent(ctx, place, "gomoe: who has joined", err)
	if gone == nil && missing == "" {
		place.Shut()
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

// absent tells all ranks whether this rank has an error. It returns the errors of all
// ranks as text, each error once; "" if there is none.
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
