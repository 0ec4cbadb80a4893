package tcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/engine"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/job/meet"
	"github.com/gomoe/gomoe/jaccl/job/watch"
	"github.com/gomoe/gomoe/jaccl/link"
)

func TestLink(t *testing.T) {
	for name, move := range movers() {
		t.Run(name, func(t *testing.T) {
			jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link { return links(t, n, move) })
		})
	}
}

// ranks has n ranks of this process meet, and connects them like processes.
func ranks(t testing.TB, n int) []jaccl.Communicator {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	secret := make([]byte, 32)
	rand.Read(secret)
	comms, errs := make([]jaccl.Communicator, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			o := meet.Options{Rank: i, Size: n, Coordinator: ln.Addr().String(), Secret: secret, Host: fmt.Sprint("host", i)}
			if i == 0 {
				o.Listener = ln
			}
			comms[i], errs[i] = communicator(context.Background(), o)
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return comms
}

func communicator(ctx context.Context, o meet.Options) (jaccl.Communicator, error) {
	p, err := meet.Join(ctx, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	w, err := watch.Start(ctx, p, watch.Options{})
	if err != nil {
		return nil, err
	}
	l, err := Connect(ctx, p)
	if err != nil {
		w.Close()
		return nil, err
	}
	return engine.Connect(l, w, jaccl.Options{Deadline: time.Minute})
}

// The conformance of all parts together: meet, watch and link under the engine.
func TestCommunicator(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator { return ranks(t, n) })
}
