package ring

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
)

// The operations' names in a Call, as in package jaccl.
const (
	allSum    = "all_sum"
	allMax    = "all_max"
	allMin    = "all_min"
	allGather = "all_gather"
	barrier   = "barrier"
	send      = "send"
	recv      = "recv"
	sendRecv  = "send_recv"
)

// AllSum implements collective.Group, but for the order of the additions and the
// rounding of f16 and bf16, which are MLX's. dst is src or does not overlap it.
func (m *comm) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.reduce(ctx, c, allSum, reduce.Sum, dst, src)
}

// AllMax implements jaccl.Group.
func (m *comm) AllMax(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.reduce(ctx, c, allMax, reduce.Above, dst, src)
}

// AllMin implements jaccl.Group.
func (m *comm) AllMin(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.reduce(ctx, c, allMin, reduce.Below, dst, src)
}

func (m *comm) reduce(ctx context.Context, c collective.Call, name string, op reduce.Op, dst, src []byte) error {
	bad := m.named(c, name)
	size := c.DType.Size()
	switch {
	case bad != nil:
	case !c.DType.IsInt() && !c.DType.IsFloat():
		bad = argument(m.rank, c, "elements of %s, want a type that can be summed: %s to %s", c.DType, graph.U8, graph.F64)
	case len(src)%size != 0:
		bad = argument(m.rank, c, "a buffer of %d bytes, want whole elements of %d bytes", len(src), size)
	case len(dst) != len(src):
		bad = argument(m.rank, c, "dst of %d bytes and src of %d, want equal lengths", len(dst), len(src))
	case reduce.Overlap(dst, src) && !reduce.Same(dst, src):
		bad = argument(m.rank, c, "a dst that overlaps a part of src, want the same buffer or separate ones")
	case m.Size() > 1 && len(src)/size < m.Size() && m.Size()*size > padBytes:
		return m.unsupported(c, "reduction of fewer elements than ranks, where one element for each has more than 1024 bytes", "pass at least as many elements as there are ranks")
	}
	return m.run(ctx, c, bad, func(o *operation) error {
		copy(dst, src)
		if m.Size() == 1 {
			return nil
		}
		return o.reduce(dst, arithmetic{op, c.DType})
	})
}

// AllGather implements collective.Group. dst and src do not overlap.
func (m *comm) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	bad := m.named(c, allGather)
	switch {
	case bad != nil:
	case len(dst) != m.Size()*len(src):
		bad = argument(m.rank, c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), m.Size()*len(src), m.Size())
	case reduce.Overlap(dst, src):
		bad = argument(m.rank, c, "a dst that overlaps src, want separate buffers")
	}
	return m.run(ctx, c, bad, func(o *operation) error {
		copy(dst[m.rank*len(src):], src)
		if m.Size() == 1 || len(src) == 0 {
			return nil
		}
		return o.gather(dst)
	})
}

// Barrier implements collective.Group. MLX has no barrier; its programs wait for each
// other with an all_sum of one f32, mx.distributed.all_sum(mx.array(1.0)), and
// this is that. The sum is not looked at.
func (m *comm) Barrier(ctx context.Context, c collective.Call) error {
	if m.Size()*4 > padBytes {
		return m.unsupported(c, "barrier of more than 256 ranks", "call AllSum with an element for each rank")
	}
	return m.run(ctx, c, m.named(c, barrier), func(o *operation) error {
		if m.Size() == 1 {
			return nil
		}
		one := binary.NativeEndian.AppendUint32(nil, math.Float32bits(1))
		return o.reduce(one, arithmetic{reduce.Sum, graph.F32})
	})
}

// Send gives src to a neighbour, which calls Recv, or in MLX recv, with that length.
// Other than jaccl.Group says it returns when src is the caller's again, which may
// be before the neighbour has come: MLX's protocol has no answer.
func (m *comm) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	ws, bad, err := m.neighbour(c, send, to, m.towards)
	if err != nil {
		return err
	}
	return m.run(ctx, c, bad, func(o *operation) error { return o.send(ws, src) })
}

// Recv is the other side of Send.
func (m *comm) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	ws, bad, err := m.neighbour(c, recv, from, m.behind)
	if err != nil {
		return err
	}
	return m.run(ctx, c, bad, func(o *operation) error { return o.receive(ws, dst) })
}

// SendRecv is Send and Recv at once, for which MLX's ranks call both.
func (m *comm) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	out, bad, err := m.neighbour(c, sendRecv, to, m.towards)
	if err != nil {
		return err
	}
	in, other, err := m.neighbour(c, sendRecv, from, m.behind)
	if err != nil {
		return err
	}
	switch {
	case bad != nil:
	case other != nil:
		bad = other
	case reduce.Overlap(dst, src):
		bad = argument(m.rank, c, "a dst that overlaps src, want separate buffers")
	}
	return m.run(ctx, c, bad, func(o *operation) error {
		sent := make(chan error)
		go func() { sent <- o.send(out, src) }()
		err := o.receive(in, dst)
		if e := <-sent; err == nil {
			err = e
		}
		return err
	})
}

// neighbour checks the name of a call and finds the connections to a rank.
func (m *comm) neighbour(c collective.Call, op string, rank int, find func(int) []*wire) (ws []*wire, bad *failure, err error) {
	if bad = m.named(c, op); bad != nil {
		return nil, bad, nil
	}
	if rank < 0 || rank >= m.Size() || rank == m.rank {
		return nil, argument(m.rank, c, "rank %d at the other side, want another of 0 to %d", rank, m.Size()-1), nil
	}
	if ws = find(rank); ws == nil {
		n := m.Size()
		return nil, nil, m.unsupported(c, "connection between ranks that are no neighbours",
			fmt.Sprintf("pass it on along the ring; the neighbours of rank %d are ranks %d and %d", m.rank, (m.rank+n-1)%n, (m.rank+1)%n))
	}
	return ws, nil, nil
}

func (m *comm) named(c collective.Call, op string) *failure {
	if c.Op != op {
		return argument(m.rank, c, "the method of %s, want the method of its name", op)
	}
	return nil
}
