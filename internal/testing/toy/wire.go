package toy

import (
	"context"

	"github.com/gomoe/gomoe/collective"
)

// Wire returns comm with a call of travel before each exchange. In travel, a test lets
// time pass, waits for something, or fails. If travel returns an error, the exchange does
// not happen and returns that error.
func Wire(comm collective.Communicator, travel func(ctx context.Context, rank int, c collective.Call) error) collective.Communicator {
	return &wire{comm, travel}
}

type wire struct {
	collective.Communicator
	travel func(ctx context.Context, rank int, c collective.Call) error
}

func (w *wire) Group(ranks []int) (collective.Group, error) {
	g, err := w.Communicator.Group(ranks)
	return &wired{g, w}, err
}

// wired is a group of a wire. Each exchange calls travel first.
type wired struct {
	collective.Group
	wire *wire
}

func (w *wired) travel(ctx context.Context, c collective.Call) error {
	return w.wire.travel(ctx, w.wire.Rank(), c)
}

func (w *wired) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	if err := w.travel(ctx, c); err != nil {
		return err
	}
	return w.Group.AllSum(ctx, c, dst, src)
}

func (w *wired) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	if err := w.travel(ctx, c); err != nil {
		return err
	}
	return w.Group.AllGather(ctx, c, dst, src)
}

func (w *wired) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	if err := w.travel(ctx, c); err != nil {
		return err
	}
	return w.Group.ReduceScatter(ctx, c, dst, src)
}

func (w *wired) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	if err := w.travel(ctx, c); err != nil {
		return err
	}
	return w.Group.AllToAll(ctx, c, dst, src)
}

func (w *wired) Barrier(ctx context.Context, c collective.Call) error {
	if err := w.travel(ctx, c); err != nil {
		return err
	}
	return w.Group.Barrier(ctx, c)
}
