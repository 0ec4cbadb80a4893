package jaccltest

import (
	"context"
	"slices"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// farComm is the communicator of a Far rank.
type farComm struct {
	far        *Far
	rank, size int
	failed     error // the first argument of Fail
}

func (c *farComm) Rank() int { return c.rank }
func (c *farComm) Size() int { return c.size }

func (c *farComm) Group(ranks []int) (collective.Group, error) {
	g, err := c.Among(ranks)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (c *farComm) Among(ranks []int) (jaccl.Group, error) {
	a := c.far.ask(context.Background(), request{Kind: "among", Ranks: ranks})
	if err := a.error(nil, c.failed); err != nil {
		return nil, err
	}
	return &farEnd{c, *a.Group}, nil
}

func (c *farComm) World() jaccl.Group {
	a := c.far.ask(context.Background(), request{Kind: "world"})
	if a.Group == nil {
		return &farEnd{c, farGroup{Rank: c.rank, Size: c.size}} // the process has ended, as every operation will report
	}
	return &farEnd{c, *a.Group}
}

func (c *farComm) Fail(cause error) {
	if c.failed == nil {
		c.failed = cause
	}
	c.far.ask(context.Background(), request{Kind: "fail", Text: cause.Error()})
}

func (c *farComm) Close() error {
	a := c.far.ask(context.Background(), request{Kind: "close"})
	return a.error(nil, c.failed)
}

// farEnd is a group of a Far rank.
type farEnd struct {
	c *farComm
	farGroup
}

func (g *farEnd) Rank() int    { return g.farGroup.Rank }
func (g *farEnd) Size() int    { return g.farGroup.Size }
func (g *farEnd) Ranks() []int { return slices.Clone(g.farGroup.Ranks) }

// do sends r with copies of these buffers to the rank, copying the result into dst.
func (g *farEnd) do(ctx context.Context, r request, dst, src [][]byte) (answer, error) {
	blocks, places := pack(dst, src)
	r.Group, r.Blocks, r.Dst, r.Src = g.ID, blocks, places[0], places[1]
	a := g.c.far.ask(ctx, r)
	if len(a.Blocks) == len(blocks) {
		for i, b := range buffers(r.Dst, a.Blocks) {
			copy(dst[i], b)
		}
	}
	return a, a.error(context.Cause(ctx), g.c.failed)
}

// just is do for an operation returning nothing but an error.
func (g *farEnd) just(ctx context.Context, kind string, c collective.Call, dst, src [][]byte) error {
	_, err := g.do(ctx, request{Kind: kind, Call: c}, dst, src)
	return err
}

func (g *farEnd) AllSum(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_sum", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllMax(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_max", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllMin(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_min", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllGather(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "all_gather", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	return g.just(ctx, "all_gather_v", c, dst, [][]byte{src})
}

func (g *farEnd) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return g.just(ctx, "reduce_scatter", c, [][]byte{dst}, [][]byte{src})
}

func (g *farEnd) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	return g.just(ctx, "all_to_all", c, dst, src)
}

func (g *farEnd) Barrier(ctx context.Context, c collective.Call) error {
	return g.just(ctx, "barrier", c, nil, nil)
}

func (g *farEnd) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	_, err := g.do(ctx, request{Kind: "broadcast", Call: c, From: root}, [][]byte{buf}, nil)
	return err
}

func (g *farEnd) Send(ctx context.Context, c collective.Call, to int, src []byte) error {
	_, err := g.do(ctx, request{Kind: "send", Call: c, To: to}, nil, [][]byte{src})
	return err
}

func (g *farEnd) Recv(ctx context.Context, c collective.Call, from int, dst []byte) error {
	_, err := g.do(ctx, request{Kind: "recv", Call: c, From: from}, [][]byte{dst}, nil)
	return err
}

func (g *farEnd) SendRecv(ctx context.Context, c collective.Call, to int, src []byte, from int, dst []byte) error {
	_, err := g.do(ctx, request{Kind: "send_recv", Call: c, To: to, From: from}, [][]byte{dst}, [][]byte{src})
	return err
}

func (g *farEnd) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	a, err := g.do(ctx, request{Kind: "split", Call: c, To: color, From: key}, nil, nil)
	if err != nil || a.Group == nil {
		return nil, err
	}
	return &farEnd{g.c, *a.Group}, nil
}

func (g *farEnd) Close() error {
	_, err := g.do(context.Background(), request{Kind: "close group"}, nil, nil)
	return err
}
