package ring

import (
	"context"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// What MLX's ring has not, and what to use instead.

// ReduceScatter returns jaccl.ErrUnsupported.
func (m *comm) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.unsupported(c, "reduce_scatter", "use AllSum and this rank's part of its result, or the transport tcp")
}

// AllToAll returns jaccl.ErrUnsupported.
func (m *comm) AllToAll(ctx context.Context, c collective.Call, dst, src [][]byte) error {
	return m.unsupported(c, "all_to_all", "use AllGather and the parts for this rank, or the transport tcp")
}

// AllGatherV returns jaccl.ErrUnsupported.
func (m *comm) AllGatherV(ctx context.Context, c collective.Call, dst [][]byte, src []byte) error {
	return m.unsupported(c, "all_gather of different lengths", "use AllGather with blocks of the largest length, or the transport tcp")
}

// Broadcast returns jaccl.ErrUnsupported.
func (m *comm) Broadcast(ctx context.Context, c collective.Call, root int, buf []byte) error {
	return m.unsupported(c, "broadcast", "use AllSum with zeros on all ranks but the root, or the transport tcp")
}

// Split returns jaccl.ErrUnsupported.
func (m *comm) Split(ctx context.Context, c collective.Call, color, key int) (jaccl.Group, error) {
	return nil, m.unsupported(c, "split", "use a ring for each group, or the transport tcp")
}
