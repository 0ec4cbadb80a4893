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

// peers are the processes of a job. The first one sends each order to all others before it carries the order out.
type peers struct {
	group jaccl.Group
	first bool
	buf   []byte // an order
	slots int    // that an order has at most
}

// meet returns the processes of a World, nil if this is the only one.
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
	return &peers{comms[0].World(), info.First(), make([]byte, 4*(3+2*slots+max(blocks()[0], slots))), slots}, nil
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
	put(o.ids...)
	clear(p.buf[len(buf):])
	return p.pass(ctx)
}

// receive returns the next order of the first process. It waits no longer than the deadline of the job.
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
	if o.kind = kind(head[0]); o.kind == copied {
		starts = 1
	}
	o.slots = take(int(head[1]))
	o.start = take(starts)
	o.ids = take(int(head[2]))
	return o, nil
}

// pass gives the first process's order to all others. MLX's protocols have no broadcast: there the order is a sum with zeros.
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

// beat returns how often the first process sends an order while there is nothing to do, so that the others wait
// within their deadline, and a process that has died is found.
func beat(deadline time.Duration) time.Duration {
	if deadline > 0 {
		return min(deadline/4, time.Second)
	}
	return time.Second
}

// Follow carries out the orders of the job's first process, in every other one. It returns nil when the first process
// closes its Generator, and an error if a process is gone or a step fails.
func (g *Generator) Follow(ctx context.Context) error {
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
		if _, err := g.run(ctx, o); err != nil {
			return fmt.Errorf("generate: %w", err)
		}
	}
}
