package mesh

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// group is some ranks of a job of JACCL; see Connect.
type group struct {
	headless.Member
	headless.Lacking
	c     *comm
	ranks []int
	index int // index of this rank in the group
	wires []wire

	closed atomic.Bool
}

var _ jaccl.Group = (*group)(nil)

// Rank implements collective.Group.
func (g *group) Rank() int { return g.index }

// Size implements collective.Group.
func (g *group) Size() int { return len(g.ranks) }

// Ranks implements jaccl.Group.
func (g *group) Ranks() []int { return slices.Clone(g.ranks) }

// Close implements jaccl.Group.
func (g *group) Close() error {
	g.closed.Store(true)
	return nil
}

// AllSum implements collective.Group.
func (g *group) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.reduce(ctx, c, "all_sum", reduce.Sum, dst, src)
}

// AllMax implements jaccl.Group.
func (g *group) AllMax(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.reduce(ctx, c, "all_max", reduce.Greater, dst, src)
}

// AllMin implements jaccl.Group.
func (g *group) AllMin(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.reduce(ctx, c, "all_min", reduce.Less, dst, src)
}

func (g *group) reduce(ctx context.Context, c collective.Call, name string, op reduce.Op, dst, src []byte) error {
	return g.run(ctx, c, g.Reduction(c, name, dst, src), func(o *operation) error { return g.allReduce(ctx, o, op, c.DType, dst, src) })
}

// AllGather implements collective.Group.
func (g *group) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.run(ctx, c, g.Gather(c, dst, src), func(o *operation) error {
		copy(dst[g.index*len(src):], src)
		return g.allGather(ctx, o, dst, len(src))
	})
}

// ReduceScatter implements collective.Group. JACCL calls it sum_scatter.
func (g *group) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.run(ctx, c, g.Scatter(c, dst, src), func(o *operation) error { return g.sumScatter(ctx, o, reduce.Sum, c.DType, dst, src) })
}

// Barrier implements collective.Group. As in JACCL, it is a sum of one byte.
func (g *group) Barrier(ctx context.Context, c collective.Call) error {
	return g.run(ctx, c, g.Named(c, "barrier"), func(o *operation) error {
		var b [2]byte
		return g.allReduce(ctx, o, reduce.Greater, graph.U8, b[:1], b[1:])
	})
}

// Send implements jaccl.Group. It returns when the device has sent src.
func (g *group) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	return g.run(ctx, c, headless.First(g.Named(c, "send"), g.other(c, to)), func(o *operation) error {
		return g.pass(ctx, o, to, src, to, nil)
	})
}

// Recv implements jaccl.Group.
func (g *group) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	return g.run(ctx, c, headless.First(g.Named(c, "recv"), g.other(c, from)), func(o *operation) error {
		return g.pass(ctx, o, from, nil, from, dst)
	})
}

// SendRecv implements jaccl.Group. To JACCL's ranks it is a send and a recv.
func (g *group) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	bad := headless.First(g.Named(c, "send_recv"), g.other(c, to), g.other(c, from), g.Apart(c, dst, src))
	return g.run(ctx, c, bad, func(o *operation) error { return g.pass(ctx, o, to, src, from, dst) })
}

// other checks that i is the index of a member other than this one.
func (g *group) other(c collective.Call, i int) *headless.FailureError {
	if i < 0 || i >= len(g.ranks) || i == g.index {
		return g.Argument(c, "member %d, want another one of %d", i, len(g.ranks))
	}
	return nil
}
