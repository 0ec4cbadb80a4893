package world

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// Warmup runs one small collective of each kind that the transport has, among all ranks.
// So the first step does not pay for setting up connections and memory, and problems are
// found before it. All processes call Warmup at the same point. Setup does not call it.
func (w *World) Warmup(ctx context.Context) error {
	s, err := w.ready()
	if err != nil {
		return err
	}
	if err := s.all(func(c jaccl.Communicator) error { return warm(ctx, c.World()) }); err != nil {
		return fmt.Errorf("gomoe: warm-up: %w", err)
	}
	return nil
}

// warm runs the collectives in a group.
func warm(ctx context.Context, g jaccl.Group) error {
	n := g.Size()
	mine := make([]byte, 4*n)
	all := make([]byte, 4*n*n)
	parts, others := make([][]byte, n), make([][]byte, n)
	for i := range parts {
		parts[i], others[i] = mine[4*i:4*i+4], make([]byte, 4)
	}
	call := func(op string) collective.Call {
		return collective.Call{Op: op, DType: graph.I32, Bytes: int64(len(mine)), Pos: graph.Pos{File: "World.Warmup"}}
	}
	next, before := (g.Rank()+1)%n, (g.Rank()+n-1)%n
	for _, op := range []struct {
		name string
		run  func(c collective.Call) error
	}{
		{"all_sum", func(c collective.Call) error { return g.AllSum(ctx, c, all[:len(mine)], mine) }},
		{"all_max", func(c collective.Call) error { return g.AllMax(ctx, c, all[:len(mine)], mine) }},
		{"all_min", func(c collective.Call) error { return g.AllMin(ctx, c, all[:len(mine)], mine) }},
		{"all_gather", func(c collective.Call) error { return g.AllGather(ctx, c, all, mine) }},
		{"all_gather_v", func(c collective.Call) error { return g.AllGatherV(ctx, c, others, mine[:4]) }},
		{"reduce_scatter", func(c collective.Call) error { return g.ReduceScatter(ctx, c, all[:4], mine) }},
		{"all_to_all", func(c collective.Call) error { return g.AllToAll(ctx, c, others, parts) }},
		{"broadcast", func(c collective.Call) error { return g.Broadcast(ctx, c, 0, mine) }},
		{"send_recv", func(c collective.Call) error {
			if n == 1 {
				return nil // there is no other rank
			}
			return g.SendRecv(ctx, c, next, mine[:4], before, all[:4])
		}},
		{"barrier", func(c collective.Call) error { return g.Barrier(ctx, c) }},
	} {
		// MLX's ring lacks some of the operations. Programs that need them get an error
		// then.
		if err := op.run(call(op.name)); err != nil && !errors.Is(err, jaccl.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// Any reports whether any process passes yes. All processes call it at the same point and
// get the same answer. They can thus agree whether to stop, for example after a signal
// that reached them at different times.
func (w *World) Any(ctx context.Context, yes bool) (bool, error) {
	s, err := w.ready()
	if err != nil || s.info.Mode == InProcess {
		return yes, err
	}
	var b [4]byte
	if yes {
		binary.NativeEndian.PutUint32(b[:], 1)
	}
	c := collective.Call{Op: "all_max", DType: graph.I32, Bytes: int64(len(b)), Pos: graph.Pos{File: "World.Any"}}
	if err := s.comms[0].World().AllMax(ctx, c, b[:], b[:]); err != nil {
		return false, fmt.Errorf("gomoe: %w", err)
	}
	return binary.NativeEndian.Uint32(b[:]) != 0, nil
}
