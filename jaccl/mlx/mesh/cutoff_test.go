package mesh

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/cutoff"
)

func TestCutOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close()) // nobody listens there any more
	cutoff.Check(t, func(ctx context.Context) error {
		return (&sideChannel{rank: 1, size: 2, conns: make([]net.Conn, 2)}).dial(ctx, ln.Addr().String())
	})
}
