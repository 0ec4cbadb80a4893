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

// failure poisons a job. The errors of all ranks of a process share it.
type failure struct {
	blame []int  // the ranks that caused it
	text  string // for messages
	err   error  // a kind of failure, or the cause given to Fail or of a context; nil if only another rank has it
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.err }

// seen returns the failure as the error of a rank, for its failed call c.
func (f *failure) seen(ctx context.Context, rank int, c collective.Call) *jaccl.Error {
	return jaccl.Failed(ctx, rank, c, f.blame, f)
}

func failed(rank int, cause error) *failure {
	if cause == nil {
		cause = errors.New("no cause given")
	}
	return &failure{[]int{rank}, fmt.Sprintf("rank %d failed: %v", rank, cause), cause}
}

func gone(rank int) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d has closed its communicator", rank), jaccl.ErrClosed}
}

func goneFrom(rank int, ranks []int) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d has closed its end of the group of ranks %v", rank, ranks), jaccl.ErrClosed}
}

func busy(rank int, c collective.Call) *failure {
	return argument(rank, c, "another collective of the same group in progress, want one goroutine per rank at a time")
}

func argument(rank int, c collective.Call, format string, args ...any) *failure {
	return &failure{[]int{rank}, fmt.Sprintf("rank %d calls %s with ", rank, c) + fmt.Sprintf(format, args...), jaccl.ErrArgument}
}

func left(ctx context.Context, rank int, c collective.Call) *failure {
	cause := context.Cause(ctx)
	return &failure{[]int{rank}, fmt.Sprintf("rank %d left %s: %v", rank, c, cause), cause}
}

// late returns the failure of ranks that did not arrive. where has the known whereabouts
// of each of these ranks, "" if unknown.
func late(missing []int, where []string, c collective.Call, ranks []int, d time.Duration) *failure {
	text := ""
	for i, rank := range missing {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("rank %d", rank)
		if where[i] != "" {
			text += " (" + where[i] + ")"
		}
	}
	return &failure{missing, fmt.Sprintf("%s did not arrive within %v at %s among ranks %v", text, d, c, ranks), jaccl.ErrDeadline}
}

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
