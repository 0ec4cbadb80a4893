package generate

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/world"
)

// peers connects the processes of a job. The first one sends each order to all others before executing it.
type peers struct {
	group jaccl.Group
	first bool
	rank  int
	buf   []byte // an encoded order
	slots int    // maximum per order
}

// meet returns the peers of a World, or nil in a single process.
func meet(w *world.World, sequences int) (*peers, error) {
	if w == nil {
		return nil, nil
	}
	info, err := w.Info()
	if err != nil || info.Mode == world.InProcess || info.Size == 1 {
		return nil, err
	}
	comms, err := w.Communicators()
	if err != nil {
		return nil, err
	}
	slots := max(sequences, 2)
	return &peers{comms[0].World(), info.First(), info.Rank, make([]byte, 4*(3+3*slots+max(blocks()[0], slots))), slots}, nil
}

// send sends an order to all other processes.
func (p *peers) send(ctx context.Context, o order) error {
	buf := p.buf[:0]
	put := func(xs ...int32) {
		for _, x := range xs {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(x))
		}
	}
	put(int32(o.kind), int32(len(o.slots)), int32(len(o.ids)))
	put(o.slots...)
	put(o.start...)
	put(o.length...)
	put(o.ids...)
	clear(p.buf[len(buf):])
	return p.pass(ctx)
}

// receive returns the next order of the first process. It waits no longer than the job's deadline.
func (p *peers) receive(ctx context.Context) (o order, err error) {
	if err := p.pass(ctx); err != nil {
		return o, err
	}
	at := 0
	take := func(n int) []int32 {
		xs := make([]int32, n)
		for i := range xs {
			xs[i], at = int32(binary.LittleEndian.Uint32(p.buf[at:])), at+4
		}
		return xs
	}
	head := take(3)
	starts := int(head[1])
	lengths := starts
	if o.kind = kind(head[0]); o.kind == copied || o.kind == saved {
		starts, lengths = 2, 0
	}
	o.slots = take(int(head[1]))
	o.start = take(starts)
	o.length = take(lengths)
	o.ids = take(int(head[2]))
	return o, nil
}

// pass broadcasts the first process's order. MLX's protocols have no broadcast, so with them the order is summed
// with zeros.
func (p *peers) pass(ctx context.Context) error {
	if l, ok := p.group.(collective.Limited); ok && l.Lacks("broadcast") != nil {
		if !p.first {
			clear(p.buf)
		}
		c := collective.Call{Op: "all_sum", DType: graph.I32, Bytes: int64(len(p.buf)), Pos: graph.Pos{File: "generate.Follow"}}
		return p.group.AllSum(ctx, c, p.buf, p.buf)
	}
	c := collective.Call{Op: "broadcast", DType: graph.U8, Bytes: int64(len(p.buf)), Pos: graph.Pos{File: "generate.Follow"}}
	return p.group.Broadcast(ctx, c, 0, p.buf)
}

// beat returns the interval at which the first process asks the others whether they should stop. It keeps idle
// processes within their deadline, and detects dead ones.
func beat(deadline time.Duration) time.Duration {
	if deadline > 0 {
		return min(deadline/4, time.Second)
	}
	return time.Second
}

// StopError reports that another process of the job was asked to stop. It wraps context.Canceled.
type StopError struct{ Rank int }

func (e *StopError) Error() string { return fmt.Sprintf("rank %d was asked to end", e.Rank) }

func (e *StopError) Unwrap() error { return context.Canceled }

// Until returns a context, for the job's first process, that ends when ctx does, or when the stop of another
// process's Follow has ended; its cause is then a *StopError. The caller should then end its requests and call
// Close.
func (g *Generator) Until(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	context.AfterFunc(g.asked, func() { end(context.Cause(g.asked)) })
	return ctx
}

// stops makes all processes tell whether they were asked to stop, and ends g.asked if any but the first was.
func (g *Generator) stops(ctx context.Context, asked bool) error {
	rank := int32(0)
	if asked {
		rank = int32(g.peers.rank)
	}
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(rank))
	c := collective.Call{Op: "all_max", DType: graph.I32, Bytes: int64(len(b)), Pos: graph.Pos{File: "generate.Follow"}}
	if err := g.peers.group.AllMax(ctx, c, b[:], b[:]); err != nil {
		return err
	}
	if rank := binary.NativeEndian.Uint32(b[:]); rank > 0 {
		g.stop(&StopError{int(rank)})
	}
	return nil
}

// Follow executes the orders of the job's first process; every other process calls it. It returns nil when the
// first process closes its Generator, and an error if a process is gone, a step fails, or ctx ends. When stop ends,
// it asks the first process to stop: see Until.
func (g *Generator) Follow(ctx, stop context.Context) error {
	if g.peers == nil || g.peers.first {
		return fmt.Errorf("generate: the first process of a job has nobody to follow; call Generate")
	}
	for {
		o, err := g.peers.receive(ctx)
		if err != nil {
			return fmt.Errorf("generate: %w", err)
		}
		if o.kind == end {
			return nil
		}
		if o.kind == idle {
			err = g.stops(ctx, stop.Err() != nil)
		} else {
			_, err = g.run(ctx, o)
		}
		if err != nil {
			return fmt.Errorf("generate: %w", err)
		}
	}
}
