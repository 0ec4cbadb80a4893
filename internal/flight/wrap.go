package flight

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// communicator is a communicator of groups recording their operations.
type communicator struct {
	jaccl.Communicator
	r *Recorder
}

// Alloc implements jaccl.Memory if the wrapped communicator does.
func (c *communicator) Alloc(n int) ([]byte, error) {
	m, ok := c.Communicator.(jaccl.Memory)
	if !ok {
		return nil, fmt.Errorf("flight: alloc: %w", jaccl.ErrUnsupported)
	}
	return m.Alloc(n)
}

// Lease implements collective.Leaser if the wrapped communicator does.
func (c *communicator) Lease(n int) ([]byte, func() error, error) {
	m, ok := c.Communicator.(jaccl.Memory)
	if !ok {
		return nil, nil, fmt.Errorf("flight: lease: %w", jaccl.ErrUnsupported)
	}
	return m.Lease(n)
}

func (c *communicator) World() jaccl.Group {
	all := make([]int, c.Size())
	for i := range all {
		all[i] = i
	}
	return &group{c.Communicator.World(), c.r, all}
}

func (c *communicator) Among(ranks []int) (jaccl.Group, error) {
	g, err := c.Communicator.Among(ranks)
	if err != nil {
		return nil, err
	}
	return &group{g, c.r, append([]int(nil), ranks...)}, nil
}

func (c *communicator) Group(ranks []int) (collective.Group, error) { return c.Among(ranks) }

// group is a group recording its operations.
type group struct {
	jaccl.Group
	r     *Recorder
	ranks []int // the members' ranks in the job
}

// Lacks implements collective.Limited, including for a group that has all operations.
func (g *group) Lacks(op string) error {
	if l, ok := g.Group.(collective.Limited); ok {
		return l.Lacks(op)
	}
	return nil
}

// nobody is the peer of an operation without a single other rank or a root.
const nobody = -1

// rank returns the member's rank in the job, or nobody if there is no such
// member.
func (g *group) rank(member int) int {
	if member < 0 || member >= len(g.ranks) {
		return nobody
	}
	return g.ranks[member]
}

func (g *group) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	n := g.r.begin(c, g.ranks, nobody, int64(len(src)))
	return g.r.end(n, g.Group.AllSum(ctx, c, dst, src))
}

func (g *group) AllMax(ctx context.Context, c collective.Call, dst, src []byte) error {
	n := g.r.begin(c, g.ranks, nobody, int64(len(src)))
	return g.r.end(n, g.Group.AllMax(ctx, c, dst, src))
}

func (g *group) AllMin(ctx context.Context, c collective.Call, dst, src []byte) error {
	n := g.r.begin(c, g.ranks, nobody, int64(len(src)))
	return g.r.end(n, g.Group.AllMin(ctx, c, dst, src))
}

func (g *group) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	n := g.r.begin(c, g.ranks, nobody, int64(len(dst)))
	return g.r.end(n, g.Group.AllGather(ctx, c, dst, src))
}

func (g *group) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	n := g.r.begin(c, g.ranks, nobody, total(dst))
	return g.r.end(n, g.Group.AllGatherV(ctx, c, dst, src))
}

func (g *group) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	n := g.r.begin(c, g.ranks, nobody, int64(len(src)))
	return g.r.end(n, g.Group.ReduceScatter(ctx, c, dst, src))
}

func (g *group) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	n := g.r.begin(c, g.ranks, nobody, max(total(dst), total(src)))
	return g.r.end(n, g.Group.AllToAll(ctx, c, dst, src))
}

func (g *group) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	n := g.r.begin(c, g.ranks, g.rank(root), int64(len(buf)))
	return g.r.end(n, g.Group.Broadcast(ctx, c, root, buf))
}

func (g *group) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	n := g.r.begin(c, g.ranks, g.rank(to), int64(len(src)))
	return g.r.end(n, g.Group.Send(ctx, c, to, src))
}

func (g *group) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	n := g.r.begin(c, g.ranks, g.rank(from), int64(len(dst)))
	return g.r.end(n, g.Group.Recv(ctx, c, from, dst))
}

func (g *group) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	n := g.r.begin(c, g.ranks, g.rank(to), int64(max(len(src), len(dst))))
	return g.r.end(n, g.Group.SendRecv(ctx, c, to, src, from, dst))
}

func (g *group) Barrier(ctx context.Context, c collective.Call) error {
	n := g.r.begin(c, g.ranks, nobody, 0)
	return g.r.end(n, g.Group.Barrier(ctx, c))
}

func (g *group) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	n := g.r.begin(c, g.ranks, nobody, 0)
	s, err := g.Group.Split(ctx, c, color, key)
	g.r.end(n, err)
	if err != nil || s == nil {
		return s, err
	}
	return &group{s, g.r, s.Ranks()}, nil
}

func total(parts [][]byte) int64 {
	n := int64(0)
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}
