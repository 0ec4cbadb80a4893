//go:build linux || darwin

package shm

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
)

// rounds runs one rank's exchanges of size bytes with each peer, as long as rank 0 says
// in its head that they go on.
type rounds struct {
	l    link.Link
	x    link.Exchange
	head [1]byte
	more bool
}

func newRounds(l link.Link, size int, arena bool) (*rounds, error) {
	r := &rounds{l: l}
	for rank := range l.Size() {
		if rank == l.Rank() {
			continue
		}
		r.x.Peers = append(r.x.Peers, rank)
		var send []byte
		if arena {
			var err error
			if send, err = l.(link.Shared).Alloc(size); err != nil {
				return nil, err
			}
		} else {
			send = make([]byte, size)
		}
		recv := make([]byte, size)
		for i := range send {
			send[i], recv[i] = byte(i), byte(i)
		}
		r.x.Send = append(r.x.Send, [][]byte{send})
		r.x.Recv = append(r.x.Recv, [][]byte{recv})
	}
	r.x.Head = r.head[:]
	r.x.Heads = func(heads [][]byte) error {
		if r.l.Rank() > 0 {
			r.more = heads[0][0] == 1
		}
		return nil
	}
	return r, nil
}

func (r *rounds) next(more bool) error {
	r.head[0] = 0
	if more {
		r.head[0] = 1
	}
	return r.l.Exchange(context.Background(), &r.x)
}

func mirror(site link.Site, args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	l, err := Connect(context.Background(), site, Options{})
	if err != nil {
		return err
	}
	r, err := newRounds(l, size, args[1] == "arena")
	if err != nil {
		return err
	}
	for r.more = true; r.more; {
		if err := r.next(false); err != nil {
			return err
		}
	}
	return l.Close()
}

// BenchmarkExchange exchanges bytes with each peer. Each rank is a process of its own.
// The rate is that at which one rank receives.
func BenchmarkExchange(b *testing.B) {
	for _, n := range []int{2, 4} {
		for _, how := range []string{"ring", "arena"} {
			for _, size := range []int{0, 2 << 10, 32 << 10, 256 << 10, 512 << 10, 1 << 20, 8 << 20} {
				if size == 0 && how != "ring" {
					continue
				}
				b.Run(fmt.Sprintf("ranks=%d/%s/%d", n, how, size), func(b *testing.B) {
					_, sites := processes(b, n, 1, nil, "mirror", fmt.Sprint(size), how)
					l := connectAll(b, sites, Options{})[0]
					r, err := newRounds(l, size, how == "arena")
					require.NoError(b, err)
					b.SetBytes(int64(size * (n - 1)))
					// The best of a few exchanges in a row: in a single one the peer may
					// have come already.
					const row = 8
					best, start, i := time.Hour, time.Now(), 0
					for b.Loop() {
						require.NoError(b, r.next(true))
						if i++; i%row == 0 {
							now := time.Now()
							best, start = min(best, now.Sub(start)), now
						}
					}
					b.ReportMetric(float64(best)/1e3/row, "best-µs")
					require.NoError(b, r.next(false))
				})
			}
		}
	}
}
