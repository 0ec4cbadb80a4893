package headless

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/cutoff"
)

func TestCutOff(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close()) // nobody listens there any more
	cutoff.Check(t, func(ctx context.Context) error {
		_, err := Dial(ctx, "tcp", ln.Addr().String(), 20*time.Millisecond, time.Second)
		return err
	})
}
