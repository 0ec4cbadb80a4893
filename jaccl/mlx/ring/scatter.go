package ring

import (
	"context"

	"github.com/gomoe/gomoe/collective"
)

// ReduceScatter returns jaccl.ErrUnsupported, because MLX's ring does not have it.
func (m *comm) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.Unsupported(c, "reduce_scatter", "use AllSum and this rank's part of its result, or the transport tcp")
}
