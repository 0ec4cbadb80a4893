package mesh

import (
	"context"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// JACCL's algorithms on a full mesh. Every message is of the class that the number of
// bytes from one rank to another gives, so a rank of JACCL sends and expects the same
// ones in the same order.
//
// Source: MeshImpl in MLX's mlx/distributed/jaccl/lib/jaccl/mesh_impl.h.

// largeReduction is where JACCL goes over from sending everything to everybody to a
// sum_scatter and an all_gather, on three or more ranks: above so many bytes.
const largeReduction = 32 << 10

// class returns the class of messages that carry n bytes.
func (g *group) class(n int) int {
	if g.c.options.FramesOnly {
		return 0
	}
	return rdma.ClassOf(n)
}

func (g *group) allReduce(ctx context.Context, o *operation, op reduce.Op, d graph.DType, dst, src []byte) error {
	n := len(g.ranks)
	if n <= 2 || len(src) <= largeReduction {
		return g.reduceAll(ctx, o, op, d, dst, src)
	}
	chunk := len(src) / d.Size() / n * d.Size()
	base := chunk * n
	shard := dst[g.index*chunk:][:chunk]
	if err := g.sumScatter(ctx, o, op, d, shard, src[:base]); err != nil {
		return err
	}
	if err := g.allGather(ctx, o, dst[:base], chunk); err != nil {
		return err
	}
	if base == len(src) {
		return nil
	}
	return g.reduceAll(ctx, o, op, d, dst[base:], src[base:])
}

// reduceAll sends src to everybody and reduces what everybody sends.
func (g *group) reduceAll(ctx context.Context, o *operation, op reduce.Op, d graph.DType, dst, src []byte) error {
	class, own := g.class(len(src)), g.own(dst, src)
	for _, e := range g.peers {
		e.Sending.Add(rdma.Data, [][]byte{own}, class)
		e.Receiving.AddKept(len(src), class)
	}
	r := inOrder{g: g, op: op, d: d, dst: dst, own: own, size: rdma.ClassBytes(class)}
	return o.drive(ctx, g.peers, r.Step)
}

// sumScatter sends part i of src to member i and reduces the parts that come.
func (g *group) sumScatter(ctx context.Context, o *operation, op reduce.Op, d graph.DType, dst, src []byte) error {
	n := len(dst)
	class := g.class(n)
	for i, e := range g.eps {
		if e != nil {
			e.Sending.Add(rdma.Data, [][]byte{src[i*n:][:n]}, class)
			e.Receiving.AddKept(n, class)
		}
	}
	r := inOrder{g: g, op: op, d: d, dst: dst, own: g.own(dst, src[g.index*n:][:n]), size: rdma.ClassBytes(class)}
	return o.drive(ctx, g.peers, r.Step)
}

// own returns src, or a copy of it if it is dst too, which is written while src is still
// read.
func (g *group) own(dst, src []byte) []byte {
	if !reduce.Same(dst, src) {
		return src
	}
	g.c.scratch = append(g.c.scratch[:0], src...)
	return g.c.scratch
}

// inOrder reduces what the members send in their order, message by message, whatever
// the order in which it comes: a message that comes early waits in its buffer.
type inOrder struct {
	g        *group
	op       reduce.Op
	d        graph.DType
	dst, own []byte
	size     int // of a message
	off      int // of the message that is being reduced
	next     int // the member whose message is next
}

func (r *inOrder) Step() (bool, error) {
	for r.off < len(r.dst) {
		dst := r.dst[r.off:min(len(r.dst), r.off+r.size)]
		in := r.own[r.off:][:len(dst)]
		e := r.g.eps[r.next]
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
		if r.next++; r.next == len(r.g.eps) {
			r.next, r.off = 0, r.off+r.size
		}
	}
	return true, nil
}

// allGather sends this member's part of dst, of n bytes, to everybody and receives
// theirs.
func (g *group) allGather(ctx context.Context, o *operation, dst []byte, n int) error {
	class := g.class(n)
	for i, e := range g.eps {
		if e != nil {
			e.Sending.Add(rdma.Data, [][]byte{dst[g.index*n:][:n]}, class)
			e.Receiving.Add(rdma.Data, [][]byte{dst[i*n:][:n]}, class)
		}
	}
	return o.drive(ctx, g.peers, nil)
}

// pass sends src to one member and receives dst from one.
func (g *group) pass(ctx context.Context, o *operation, to int, src []byte, from int, dst []byte) error {
	g.eps[to].Sending.Add(rdma.Data, [][]byte{src}, g.class(len(src)))
	g.eps[from].Receiving.Add(rdma.Data, [][]byte{dst}, g.class(len(dst)))
	eps := []*rdma.Endpoint{g.eps[to]}
	if from != to {
		eps = append(eps, g.eps[from])
	}
	return o.drive(ctx, eps, nil)
}
