package mesh

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// group is some ranks of a job of JACCL; see Connect.
type group struct {
	c     *comm
	ranks []int
	index int              // of this rank
	eps   []*rdma.Endpoint // by member, nil for this one
	peers []*rdma.Endpoint // the others

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
	bad := first(g.named(c, name), g.reducible(c, src))
	switch {
	case bad != nil:
	case len(dst) != len(src):
		bad = g.argument(c, "dst of %d bytes and src of %d, want equal lengths", len(dst), len(src))
	case reduce.Overlap(dst, src) && !reduce.Same(dst, src):
		bad = g.argument(c, "a dst that overlaps a part of src, want the same buffer or separate ones")
	}
	return g.run(ctx, c, bad, func(o *operation) error { return g.allReduce(ctx, o, op, c.DType, dst, src) })
}

// AllGather implements collective.Group.
func (g *group) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	bad := first(g.named(c, "all_gather"), g.apart(c, dst, src))
	if want := len(g.ranks) * len(src); bad == nil && len(dst) != want {
		bad = g.argument(c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), want, len(g.ranks))
	}
	return g.run(ctx, c, bad, func(o *operation) error {
		copy(dst[g.index*len(src):], src)
		return g.allGather(ctx, o, dst, len(src))
	})
}

// ReduceScatter implements collective.Group. JACCL calls it sum_scatter.
func (g *group) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	bad := first(g.named(c, "reduce_scatter"), g.reducible(c, dst), g.apart(c, dst, src))
	if want := len(g.ranks) * len(dst); bad == nil && len(src) != want {
		bad = g.argument(c, "dst of %d bytes and src of %d, want %d of src for %d members", len(dst), len(src), want, len(g.ranks))
	}
	return g.run(ctx, c, bad, func(o *operation) error { return g.sumScatter(ctx, o, reduce.Sum, c.DType, dst, src) })
}

// Barrier implements collective.Group. JACCL's is a sum of one byte.
func (g *group) Barrier(ctx context.Context, c collective.Call) error {
	return g.run(ctx, c, g.named(c, "barrier"), func(o *operation) error {
		var b [2]byte
		return g.allReduce(ctx, o, reduce.Greater, graph.U8, b[:1], b[1:])
	})
}

// Send implements jaccl.Group. It returns when the device has sent src.
func (g *group) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	return g.run(ctx, c, first(g.named(c, "send"), g.member(c, to)), func(o *operation) error {
		return g.pass(ctx, o, to, src, to, nil)
	})
}

// Recv implements jaccl.Group.
func (g *group) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	return g.run(ctx, c, first(g.named(c, "recv"), g.member(c, from)), func(o *operation) error {
		return g.pass(ctx, o, from, nil, from, dst)
	})
}

// SendRecv implements jaccl.Group. To JACCL's ranks it is a send and a recv.
func (g *group) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	bad := first(g.named(c, "send_recv"), g.member(c, to), g.member(c, from), g.apart(c, dst, src))
	return g.run(ctx, c, bad, func(o *operation) error { return g.pass(ctx, o, to, src, from, dst) })
}

// lacking is the error of an operation that JACCL does not have, nil if all ranks are
// of this package.
func (g *group) lacking(c collective.Call) error {
	if g.c.options.AllGo || len(g.ranks) == 1 {
		return nil
	}
	f := &failure{[]int{g.c.rank}, fmt.Sprintf("%s: JACCL has no such operation, and ranks of MLX may take part; see Options.AllGo", c.Op), jaccl.ErrUnsupported}
	return &jaccl.Error{Rank: g.c.rank, Call: c, Blame: f.blame, Err: f}
}

// AllToAll implements collective.Group, among ranks of this package.
func (g *group) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	if err := g.lacking(c); err != nil {
		return err
	}
	bad := g.named(c, "all_to_all")
	if bad == nil && (len(dst) != len(g.ranks) || len(src) != len(g.ranks)) {
		bad = g.argument(c, "%d parts of dst and %d of src, want one for each of %d members", len(dst), len(src), len(g.ranks))
	}
	for i, d := range dst {
		for k, s := range src {
			if bad == nil && reduce.Overlap(d, s) {
				bad = g.argument(c, "part %d of dst overlapping part %d of src, want separate buffers", i, k)
			}
		}
	}
	if bad == nil && len(dst[g.index]) != len(src[g.index]) {
		bad = g.argument(c, "%d bytes for itself and %d from itself, want equal lengths", len(src[g.index]), len(dst[g.index]))
	}
	return g.run(ctx, c, bad, func(o *operation) error {
		copy(dst[g.index], src[g.index])
		return g.swap(ctx, o, dst, src)
	})
}

// AllGatherV implements jaccl.Group, among ranks of this package.
func (g *group) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	if err := g.lacking(c); err != nil {
		return err
	}
	bad := g.named(c, "all_gather_v")
	if bad == nil && (len(dst) != len(g.ranks) || len(dst[g.index]) != len(src)) {
		bad = g.argument(c, "%d parts of dst and src of %d bytes, want a part for each of %d members and this one's as long", len(dst), len(src), len(g.ranks))
	}
	srcs := make([][]byte, len(g.ranks))
	for i := range srcs {
		srcs[i] = src
	}
	for _, d := range dst {
		bad = first(bad, g.apart(c, d, src))
	}
	return g.run(ctx, c, bad, func(o *operation) error {
		copy(dst[g.index], src)
		return g.swap(ctx, o, dst, srcs)
	})
}

// Broadcast implements jaccl.Group, among ranks of this package.
func (g *group) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	if err := g.lacking(c); err != nil {
		return err
	}
	bad := g.named(c, "broadcast")
	if bad == nil && (root < 0 || root >= len(g.ranks)) {
		bad = g.argument(c, "root %d, want a member of %d", root, len(g.ranks))
	}
	return g.run(ctx, c, bad, func(o *operation) error {
		dst, src := make([][]byte, len(g.ranks)), make([][]byte, len(g.ranks))
		if root == g.index {
			for i := range src {
				src[i] = buf
			}
		} else {
			dst[root] = buf
		}
		return g.swap(ctx, o, dst, src)
	})
}

// Split implements jaccl.Group, among ranks of this package.
func (g *group) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	if err := g.lacking(c); err != nil {
		return nil, err
	}
	mine := [2]int64{int64(color), int64(key)}
	all := make([][2]int64, len(g.ranks))
	const size = int(unsafe.Sizeof(mine))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*size)
	all[g.index] = mine
	err := g.run(ctx, c, g.named(c, "split"), func(o *operation) error { return g.allGather(ctx, o, bytes, size) })
	if err != nil || color < 0 {
		return nil, err
	}
	return g.c.group(chosen(all, g.ranks, int64(color))), nil
}
