package jaccltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// lease checks the memory that links lend. Some links of a job may lend memory while others do
// not.
func (s linkSuite) lease(t *testing.T) {
	links := s.start(t, 3)
	leases, releases := make([][]byte, len(links)), make([]func() error, len(links))
	ctx, cancel := context.WithTimeout(background(), patience)
	defer cancel()
	for rank, err := range Each(links, func(l link.Link) (err error) {
		leases[l.Rank()], releases[l.Rank()], err = borrow(ctx, l)
		return err
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	for _, l := range links {
		require.NoError(t, l.Close())
	}
	for rank, b := range leases {
		if releases[rank] == nil {
			continue
		}
		for i := range b { // the memory outlives the link
			b[i] = byte(rank)
		}
		if b[0] != byte(rank) || b[len(b)-1] != byte(rank) {
			t.Errorf("rank %d: leased memory of a closed link does not keep what is written", rank)
		}
		require.NoError(t, releases[rank]())
		require.NoError(t, releases[rank]())
		if _, _, err := links[rank].(link.Lender).Lease(1); err == nil {
			t.Errorf("rank %d: a closed link lends memory", rank)
		}
	}
}

// borrow runs exchanges with buffers in leases, at odd offsets, returning the last lease.
// release is nil if the link lends no memory.
func borrow(ctx context.Context, l link.Link) ([]byte, func() error, error) {
	const size, each = 1 << 20, 100_003
	var b []byte
	var release func() error
	for round := range 4 {
		var err error
		b, release, err = lent(l, size)
		if err != nil {
			return nil, nil, fmt.Errorf("round %d: %w", round, err)
		}
		if release != nil && (len(b) != size || bytes.Count(b, []byte{0}) != size || uintptr(unsafe.Pointer(&b[0]))%page != 0) {
			return nil, nil, fmt.Errorf("round %d: a lease of %d bytes is %d, want as many, zeroed, that begin at a page", round, size, len(b))
		}
		x := link.Exchange{Peers: others(l), Alike: round%2 == 0}
		rest := b[1+round:]
		for range x.Peers {
			copy(rest, pattern(l.Rank(), each))
			x.Send = append(x.Send, [][]byte{rest[:each]})
			x.Recv = append(x.Recv, [][]byte{rest[each : 2*each]})
			rest = rest[2*each+7:]
		}
		if err := l.Exchange(ctx, &x); err != nil {
			return nil, nil, fmt.Errorf("round %d: %w", round, err)
		}
		for i, peer := range x.Peers {
			if d := differ(x.Recv[i][0], pattern(peer, each)); d >= 0 {
				return nil, nil, fmt.Errorf("round %d: byte %d of what rank %d has sent is wrong", round, d, peer)
			}
		}
		if round < 3 && release != nil {
			if err := errors.Join(release(), release()); err != nil {
				return nil, nil, err
			}
		}
	}
	return b, release, nil
}

// lent returns a lease of the link, or the process's own memory and a nil release if the link
// lends none.
func lent(l link.Link, n int) ([]byte, func() error, error) {
	if lender, ok := l.(link.Lender); ok {
		if b, release, err := lender.Lease(n); !errors.Is(err, jaccl.ErrUnsupported) {
			return b, release, err
		}
	}
	return make([]byte, n), nil, nil
}
