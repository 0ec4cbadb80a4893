package mesh

import (
	"context"
	"sync/atomic"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// group is some ranks of a job of JACCL; see Connect.
type group struct {
	headless.Member
	c     *comm
	wires []wire

	closed atomic.Bool
}

var _ jaccl.Group = (*group)(nil)

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
		copy(dst[g.Index*len(src):], src)
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
	if i < 0 || i >= g.Size() || i == g.Index {
		return g.Argument(c, "member %d, want another one of %d", i, g.Size())
	}
	return nil
}

// This file has the algorithms of JACCL's full mesh in MLX 0.32.4. Arrays of at least
// rdma.MultiWire bytes are divided among the wires. Each wire then treats its share like
// a whole array on a mesh of one wire. The class of every message follows from the number
// of bytes sent from one rank to another on that wire, so a rank of JACCL sends and
// expects the same messages in the same order.
//
// Source: MeshGroup and MeshImpl in MLX's mlx/distributed/jaccl/lib/jaccl, mesh.cpp and
// mesh_impl.h.

// largeReduction is the largest number of bytes on a wire for which JACCL, on three or
// more ranks, sends everything to all ranks. For more bytes it uses a sum_scatter and an
// all_gather.
const largeReduction = 32 << 10

// wire holds the endpoints of a group on one wire.
type wire struct {
	g       *group
	eps     []*rdma.Endpoint // by member, nil for this one
	peers   []*rdma.Endpoint // the other members' endpoints
	scratch *[]byte          // memory for own
}

// share is the part of an operation that one wire does: n bytes of each array, from byte
// off on.
type share struct {
	wire
	off, n int
}

// shares divides n bytes among the wires. size is the size of an element in bytes.
func (g *group) shares(n, size int) []share {
	wires := 1
	if n >= rdma.MultiWire {
		wires = len(g.wires)
	}
	shares := make([]share, wires)
	for w := range shares {
		begin, end := rdma.Share(n/size, w, wires)
		shares[w] = share{g.wires[w], begin * size, (end - begin) * size}
	}
	return shares
}

// class returns the class of messages carrying n bytes.
func (g *group) class(n int) int {
	if g.c.options.FramesOnly {
		return 0
	}
	return rdma.ClassOf(n)
}

// step is a part of an operation on one wire that has been started. eps are the endpoints
// taking part. then handles arriving messages, nil if nothing is to be done.
type step struct {
	eps  []*rdma.Endpoint
	then func() (done bool, err error)
}

func (g *group) allReduce(ctx context.Context, o *operation, op reduce.Op, d graph.DType, dst, src []byte) error {
	n := g.Size()
	shares := g.shares(len(src), d.Size())
	var first, second, third []func() step // the steps of all wires; first, second and third follow one another
	for _, s := range shares {
		dst, src := dst[s.off:][:s.n], src[s.off:][:s.n]
		if n <= 2 || s.n <= largeReduction {
			first = append(first, func() step { return s.reduceAll(op, d, dst, src) })
			continue
		}
		chunk := s.n / d.Size() / n * d.Size()
		base := chunk * n
		shard := dst[g.Index*chunk:][:chunk]
		first = append(first, func() step { return s.sumScatter(op, d, shard, src[:base], chunk) })
		second = append(second, func() step { return s.allGather(dst[:base], chunk, chunk) })
		if base < s.n {
			third = append(third, func() step { return s.reduceAll(op, d, dst[base:], src[base:]) })
		}
	}
	for _, begin := range [][]func() step{first, second, third} {
		steps := make([]step, len(begin))
		for i, f := range begin {
			steps[i] = f()
		}
		if err := o.drive(ctx, steps); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) sumScatter(ctx context.Context, o *operation, op reduce.Op, d graph.DType, dst, src []byte) error {
	var steps []step
	for _, s := range g.shares(len(dst), d.Size()) {
		steps = append(steps, s.sumScatter(op, d, dst[s.off:][:s.n], src[s.off:], len(dst)))
	}
	return o.drive(ctx, steps)
}

func (g *group) allGather(ctx context.Context, o *operation, dst []byte, n int) error {
	var steps []step
	for _, s := range g.shares(n, 1) {
		steps = append(steps, s.allGather(dst[s.off:], s.n, n))
	}
	return o.drive(ctx, steps)
}

// pass sends src to the member to, and receives dst from the member from.
func (g *group) pass(ctx context.Context, o *operation, to int, src []byte, from int, dst []byte) error {
	var steps []step
	for _, s := range g.shares(len(src), 1) {
		s.eps[to].Sending.Add(rdma.Data, [][]byte{src[s.off:][:s.n]}, g.class(s.n))
		steps = append(steps, step{eps: []*rdma.Endpoint{s.eps[to]}})
	}
	for w, s := range g.shares(len(dst), 1) {
		s.eps[from].Receiving.Add(rdma.Data, [][]byte{dst[s.off:][:s.n]}, g.class(s.n))
		if from != to || w >= len(steps) {
			steps = append(steps, step{eps: []*rdma.Endpoint{s.eps[from]}})
		}
	}
	return o.drive(ctx, steps)
}

// reduceAll starts to send src to all members, and to reduce the data of all members.
func (w *wire) reduceAll(op reduce.Op, d graph.DType, dst, src []byte) step {
	class, own := w.g.class(len(src)), w.own(dst, src)
	for _, e := range w.peers {
		e.Sending.Add(rdma.Data, [][]byte{own}, class)
		e.Receiving.AddKept(len(src), class)
	}
	r := &inOrder{wire: w, op: op, d: d, dst: dst, own: own, size: rdma.ClassBytes(class)}
	return step{w.peers, r.step}
}

// sumScatter starts to send to member i the part of src beginning at byte i·stride, and
// to reduce arriving parts. All parts have the length of dst.
func (w *wire) sumScatter(op reduce.Op, d graph.DType, dst, src []byte, stride int) step {
	n := len(dst)
	class := w.g.class(n)
	for i, e := range w.eps {
		if e != nil {
			e.Sending.Add(rdma.Data, [][]byte{src[i*stride:][:n]}, class)
			e.Receiving.AddKept(n, class)
		}
	}
	r := &inOrder{wire: w, op: op, d: d, dst: dst, own: w.own(dst, src[w.g.Index*stride:][:n]), size: rdma.ClassBytes(class)}
	return step{w.peers, r.step}
}

// allGather starts to send this member's part of dst to all members, and to receive theirs.
// Part i begins at byte i·stride of dst and has n bytes.
func (w *wire) allGather(dst []byte, n, stride int) step {
	class := w.g.class(n)
	for i, e := range w.eps {
		if e != nil {
			e.Sending.Add(rdma.Data, [][]byte{dst[w.g.Index*stride:][:n]}, class)
			e.Receiving.Add(rdma.Data, [][]byte{dst[i*stride:][:n]}, class)
		}
	}
	return step{eps: w.peers}
}

// own returns src. If src and dst are the same memory, it returns a copy, because dst is
// written while src is still read.
func (w *wire) own(dst, src []byte) []byte {
	if !reduce.Same(dst, src) {
		return src
	}
	*w.scratch = append((*w.scratch)[:0], src...)
	return *w.scratch
}

// inOrder reduces the messages in the order of the members, regardless of the order of
// arrival. An early message waits in its buffer.
type inOrder struct {
	*wire
	op       reduce.Op
	d        graph.DType
	dst, own []byte
	size     int // bytes of a message
	off      int // offset in dst of the message that is being reduced
	next     int // the member to reduce next
}

func (r *inOrder) step() (bool, error) {
	for r.off < len(r.dst) {
		dst := r.dst[r.off:min(len(r.dst), r.off+r.size)]
		in := r.own[r.off:][:len(dst)]
		e := r.eps[r.next]
		if e != nil {
			b, _, ok := e.Oldest()
			if !ok {
				return false, nil
			}
			in = b
		}
		if r.next == 0 {
			copy(dst, in)
		} else {
			r.g.c.acc.Pair(dst, r.op, r.d, in)
		}
		if e != nil {
			e.Take()
			if err := e.Refill(); err != nil {
				return false, err
			}
		}
		if r.next++; r.next == len(r.eps) {
			r.next, r.off = 0, r.off+r.size
		}
	}
	return true, nil
}
