package ring

import (
	"context"

	"github.com/gomoe/gomoe/collective"
)

// ReduceScatter returns jaccl.ErrUnsupported: MLX's ring has none.
func (m *comm) ReduceScatter(ctx context.Context, c collective.Call, dst, src []byte) error {
	return m.Unsupported(c, "reduce_scatter", "use AllSum and this rank's part of its result, or the transport tcp")
}
