package ring

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl/mlx/headless"
)

// The names of the operations in a Call, as in package jaccl.
const (
	allSum   = "all_sum"
	allMax   = "all_max"
	allMin   = "all_min"
	barrier  = "barrier"
	send     = "send"
	recv     = "recv"
	sendRecv = "send_recv"
)

// AllSum implements collective.Group, except that the order of the additions and the
// rounding of f16 and bf16 follow MLX. dst is src or does not overlap it.
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
	bad, size := m.Reduction(c, name, dst, src), c.DType.Size()
	if bad == nil && m.Size() > 1 && len(src)/size < m.Size() && m.Size()*size > padBytes {
		return m.Unsupported(c, "reduction of fewer elements than ranks, where one element for each has more than 1024 bytes", "pass at least as many elements as there are ranks")
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
	return m.run(ctx, c, m.Gather(c, dst, src), func(o *operation) error {
		copy(dst[m.Index*len(src):], src)
		if m.Size() == 1 || len(src) == 0 {
			return nil
		}
		return o.gather(dst)
	})
}

// Barrier implements collective.Group. MLX has no barrier: its programs wait for each
// other with an all_sum of one f32, mx.distributed.all_sum(mx.array(1.0)). Barrier does
// the same, and ignores the sum.
func (m *comm) Barrier(ctx context.Context, c collective.Call) error {
	if m.Size()*4 > padBytes {
		return m.Unsupported(c, "barrier of more than 256 ranks", "call AllSum with an element for each rank")
	}
	return m.run(ctx, c, m.Named(c, barrier), func(o *operation) error {
		if m.Size() == 1 {
			return nil
		}
		one := binary.NativeEndian.AppendUint32(nil, math.Float32bits(1))
		return o.reduce(one, arithmetic{reduce.Sum, graph.F32})
	})
}

// Send sends src to a neighbour, which calls Recv, or recv in MLX, with the same
// length. Unlike jaccl.Group's Send, it may return before the neighbour has called
// Recv, because MLX's protocol has no answer. When it returns, src is the caller's
// again.
func (m *comm) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	ws, bad, err := m.neighbour(c, send, to, m.towards)
	if err != nil {
		return err
	}
	return m.run(ctx, c, bad, func(o *operation) error { return o.send(ws, src) })
}

// Recv receives data that a neighbour sends with Send, or send in MLX.
func (m *comm) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	ws, bad, err := m.neighbour(c, recv, from, m.behind)
	if err != nil {
		return err
	}
	return m.run(ctx, c, bad, func(o *operation) error { return o.receive(ws, dst) })
}

// SendRecv does Send and Recv at the same time. A rank of MLX calls send and recv for it.
func (m *comm) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	out, bad, err := m.neighbour(c, sendRecv, to, m.towards)
	if err != nil {
		return err
	}
	in, other, err := m.neighbour(c, sendRecv, from, m.behind)
	if err != nil {
		return err
	}
	return m.run(ctx, c, headless.First(bad, other, m.Apart(c, dst, src)), func(o *operation) error {
		sent := make(chan error)
		go func() { sent <- o.send(out, src) }()
		err := o.receive(in, dst)
		if e := <-sent; err == nil {
			err = e
		}
		return err
	})
}

// neighbour checks the name of a call, returning the connections to a rank, which find
// looks up. bad is the failure of a call with wrong arguments.
func (m *comm) neighbour(c collective.Call, op string, rank int, find func(int) []*wire) (ws []*wire, bad *headless.FailureError, err error) {
	if bad = m.Named(c, op); bad != nil {
		return nil, bad, nil
	}
	if rank < 0 || rank >= m.Size() || rank == m.Index {
		return nil, m.Argument(c, "rank %d at the other side, want another of 0 to %d", rank, m.Size()-1), nil
	}
	if ws = find(rank); ws == nil {
		n := m.Size()
		return nil, nil, m.Unsupported(c, "connection between ranks that are no neighbours",
			fmt.Sprintf("pass it on along the ring; the neighbours of rank %d are ranks %d and %d", m.Index, (m.Index+n-1)%n, (m.Index+1)%n))
	}
	return ws, nil, nil
}

// ReduceScatter returns jaccl.ErrUnsupported, because MLX's ring does not have it.
func (m *comm) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.Unsupported(c, "reduce_scatter", "use AllSum and this rank's part of its result, or the transport tcp")
}

// pieceBytes is the least that MLX sends on a connection before using the next.
const pieceBytes = 1024

// pieces divides b among the connections, calls f for all of them at once, and returns
// when all calls have returned.
func pieces(ws []*wire, b []byte, f func(w *wire, b []byte) error) error {
	length := max(pieceBytes, (len(b)+len(ws)-1)/len(ws))
	errs := make([]error, len(ws))
	var wg sync.WaitGroup
	for i, w := range ws {
		if i*length >= len(b) {
			break
		}
		wg.Go(func() { errs[i] = f(w, b[i*length:min(len(b), (i+1)*length)]) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *operation) send(ws []*wire, b []byte) error {
	return pieces(ws, b, func(w *wire, b []byte) error {
		w.toSend.Add(int64(len(b)))
		return o.write(w, b)
	})
}

func (o *operation) receive(ws []*wire, b []byte) error {
	return pieces(ws, b, func(w *wire, b []byte) error {
		w.toReceive.Add(int64(len(b)))
		w.in.Lock()
		defer w.in.Unlock()
		return o.read(w, b)
	})
}

// towards returns the connections that MLX uses to send to a rank, nil for a rank that is
// not a neighbour. In a ring of two ranks, each is the other's neighbour on both sides: a
// rank sends to the right and receives from the left.
func (m *comm) towards(to int) []*wire {
	n := m.Size()
	switch {
	case n == 1:
	case to == (m.Index+1)%n:
		return m.right
	case to == (m.Index+n-1)%n:
		return m.left
	}
	return nil
}

// behind returns the connections that MLX uses to receive from a rank, nil for a rank
// that is not a neighbour.
func (m *comm) behind(from int) []*wire {
	n := m.Size()
	switch {
	case n == 1:
	case from == (m.Index+n-1)%n:
		return m.left
	case from == (m.Index+1)%n:
		return m.right
	}
	return nil
}
