package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// grace is the time that a rank waits for the watch to report the reason after its
// connection to a peer has ended: a failing peer announces its failure before ending. It
// is also the time that a rank waits for the watch to decide on the first failure, and
// for other ranks to report their whereabouts.
const grace = 250 * time.Millisecond

// fail poisons the job with f, unless the job is poisoned already, returning the failure
// that poisoned it. It does not block.
func (e *engine) fail(f *failure, c collective.Call) *failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.known(); known != nil {
		return known
	}
	e.first = e.onHosts(f)
	if e.closed { // the rank has left: its failures do not concern other ranks
		return e.first
	}
	e.watch.Announce(link.Notice{From: e.rank, Blame: f.blame, Kind: link.KindOf(f.err), Text: e.first.text, Call: c})
	// If another rank announced a failure first, that one counts. This rank's own failure
	// is kept unchanged, because it has the cause.
	if n, ok := e.watch.First(); ok && (n.From != e.rank || n.Text != e.first.text) {
		e.first = e.noticed(n)
	}
	return e.first
}

// known returns the job's failure, nil if none is known. The caller holds mu.
func (e *engine) known() *failure {
	if e.first == nil {
		select {
		case <-e.watch.Down():
			if n, ok := e.watch.First(); ok {
				e.first = e.noticed(n)
			}
		default:
		}
	}
	return e.first
}

// noticed returns the failure announced by another rank, as seen by this rank.
func (e *engine) noticed(n link.Notice) *failure {
	text := n.Text
	if n.Kind == link.KindLost && n.From != e.rank && slices.Contains(n.Blame, e.rank) { // which this rank cannot claim about itself
		text = fmt.Sprintf("rank %d says: %s", n.From, text)
	}
	return &failure{n.Blame, text, n.Kind.Err()}
}

// onHosts returns f with the names of the blamed ranks' machines added to its text.
func (e *engine) onHosts(f *failure) *failure {
	var on []string
	for _, r := range f.blame {
		if r >= 0 && r < e.Size() {
			on = append(on, fmt.Sprintf("rank %d is on %s", r, e.watch.Host(r)))
		}
	}
	if len(on) == 0 {
		return f
	}
	return &failure{f.blame, f.text + " (" + strings.Join(on, ", ") + ")", f.err}
}

// diagnose determines why an operation ended with err, poisons the job with that failure
// and returns the job's failure. ctx is the caller's context, x the exchange in progress.
func (e *engine) diagnose(ctx context.Context, g *linkGroup, x *link.Exchange, c collective.Call, err error) *failure {
	e.mu.Lock()
	f, closed := e.known(), e.closed
	e.mu.Unlock()
	var verdict *failure
	var peer *link.PeerError
	switch {
	case f != nil:
		return f
	case errors.As(err, &verdict), errors.As(context.Cause(e.ctx), &verdict):
		return e.fail(verdict, c)
	case closed:
		return e.fail(gone(e.rank), c)
	case context.Cause(e.ctx) == errLate:
		return e.fail(e.stalled(g, x, c), c)
	case ctx.Err() != nil && e.ctx.Err() != nil:
		return e.fail(left(ctx, e.rank, c), c)
	case errors.As(err, &peer):
		return e.fail(e.lost(peer, x, c), c)
	}
	return e.fail(&failure{[]int{e.rank}, fmt.Sprintf("rank %d: %s link: %v", e.rank, e.link.Transport(), err), err}, c)
}

// settled returns the failure on which all ranks agree: f, or one that another rank
// announced at the same time and that takes precedence. It waits up to grace, because a
// watch may need a moment to decide.
func (e *engine) settled(f *failure) *failure {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-e.watch.Down():
	case <-timer.C:
		return f
	case <-e.quit:
		return f
	}
	n, ok := e.watch.First()
	if !ok || n.From == e.rank {
		return f
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil || e.first == f {
		e.first = e.noticed(n)
	}
	return e.first
}

// lost returns the failure of a peer after the end of its connection, or another failure
// that the watch reports as the reason.
func (e *engine) lost(p *link.PeerError, x *link.Exchange, c collective.Call) *failure {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	poll := time.NewTicker(grace / 50)
	defer poll.Stop()
	for waiting := true; waiting && !e.watch.Left(p.Peer); {
		select {
		case <-e.watch.Down():
			waiting = false
		case <-timer.C:
			waiting = false
		case <-e.quit:
			return gone(e.rank)
		case <-poll.C:
		}
	}
	if n, ok := e.watch.First(); ok {
		return e.noticed(n)
	}
	if e.watch.Left(p.Peer) {
		return gone(p.Peer)
	}
	return &failure{[]int{p.Peer}, fmt.Sprintf("rank %d has lost rank %d in %s: %v%s", e.rank, p.Peer, c, p.Err, unsettled(x, p.Peer)), jaccl.ErrLost}
}

// stalled returns the failure of an exchange that made no progress within the deadline.
func (e *engine) stalled(g *linkGroup, x *link.Exchange, c collective.Call) *failure {
	var missing, slow []int
	var how []string
	for i, rank := range x.Peers {
		switch at, open := x.Account(i); {
		case !open:
		case x.Head != nil && !at.Head:
			missing = append(missing, rank)
		default:
			slow, how = append(slow, rank), append(how, at.String())
		}
	}
	if len(missing) > 0 {
		blame, known := e.blamed(missing)
		where := make([]string, len(missing))
		for i, r := range missing {
			where[i] = known(r)
		}
		f := late(missing, where, c, g.ranks, e.deadline)
		f.text += further(blame, missing, known)
		f.blame = blame
		return f
	}
	if len(slow) == 0 { // the link does not report the peers for which it waits
		slow, how = slices.Clone(x.Peers), make([]string, len(x.Peers))
		for i := range how {
			at, _ := x.Account(i)
			how[i] = at.String()
		}
	}
	blame, known := e.blamed(slow)
	text := ""
	for i, rank := range slow {
		if i > 0 {
			text += ", "
		}
		if k := known(rank); k != "" {
			how[i] += "; " + k
		}
		text += fmt.Sprintf("rank %d (%s)", rank, how[i])
	}
	return &failure{blame, fmt.Sprintf("%s made no progress within %v at %s among ranks %v%s", text, e.deadline, c, g.ranks, further(blame, slow, known)), jaccl.ErrDeadline}
}

// unsettled describes the outstanding part of the exchange with a peer; empty if nothing
// is outstanding.
func unsettled(x *link.Exchange, peer int) string {
	if i := slices.Index(x.Peers, peer); i >= 0 {
		if a, open := x.Account(i); open {
			return "; " + a.String()
		}
	}
	return ""
}
