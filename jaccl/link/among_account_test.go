package link

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// half is a link that does a part of every exchange, and only with the second peer.
type half struct{ Link }

func (half) Rank() int { return 0 }
func (half) Size() int { return 3 }

func (half) Exchange(_ context.Context, x *Exchange) error {
	x.Begin()
	x.Came(1)
	x.Sent(1, 5)
	x.Received(1, 7)
	return nil
}

// What a part of a link has done with a peer is counted for that peer in the job's exchange.
func TestAmongAccount(t *testing.T) {
	w, err := LinkAmong(half{}, []int{2, 3, 5}, 6)
	require.NoError(t, err)
	x := &Exchange{Peers: []int{3, 5}}
	require.NoError(t, w.Exchange(t.Context(), x))
	for i, want := range []struct {
		head           bool
		sent, received int64
	}{{}, {true, 5, 7}} {
		p := &x.progress[i]
		if p.head.Load() != want.head || p.sent.Load() != want.sent || p.received.Load() != want.received {
			t.Errorf("peer %d: head %v, %d bytes sent, %d received, want %+v", x.Peers[i], p.head.Load(), p.sent.Load(), p.received.Load(), want)
		}
	}
}
