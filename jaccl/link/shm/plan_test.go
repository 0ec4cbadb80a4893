//go:build linux || darwin

package shm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/gomoe/gomoe/jaccl/link"
)

// plan is what all ranks know of an exchange: sizes and contents follow from a seed.
type plan struct{ n, seed int }

func (p plan) rng(words ...int) *rand.Rand {
	seed := uint64(p.seed)
	for _, w := range words {
		seed = seed*1000003 + uint64(w) + 1
	}
	return rand.New(rand.NewPCG(seed, 7))
}

// data returns what a rank sends to another one.
func (p plan) data(from, to int) []byte {
	r := p.rng(1, from, to)
	sizes := []int{0, 1, 31, r.IntN(300), 4096, r.IntN(9000), r.IntN(200_000), 1 << 20}
	b := make([]byte, sizes[r.IntN(len(sizes))])
	fill(b, r)
	return b
}

func fill(b []byte, r *rand.Rand) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	for i := len(b) &^ 7; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
}

func (p plan) head(from int) []byte {
	r := p.rng(2, from)
	b := make([]byte, []int{0, 1, 100, r.IntN(link.MaxHead), link.MaxHead}[r.IntN(5)])
	fill(b, r)
	return b
}

// cut cuts b into parts, some of which are empty.
func (p plan) cut(b []byte, words ...int) [][]byte {
	r := p.rng(words...)
	var out [][]byte
	for len(b) > 0 {
		n := min(r.IntN(2*len(b)+1), len(b))
		if r.IntN(4) == 0 {
			n = 0
		}
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

// play runs the plan's exchange with peers on one rank, and checks the result. arena is
// the memory to send from, nil for private memory.
func (p plan) play(ctx context.Context, l *transport, peers []int, head bool, arena []byte) error {
	x := &link.Exchange{Peers: peers}
	var recv [][]byte
	for _, peer := range peers {
		send := p.data(l.rank, peer)
		if p.rng(5, peer).IntN(2) == 0 && len(send) <= len(arena) {
			copy(arena, send)
			send, arena = arena[:len(send)], arena[len(send):]
		}
		x.Send = append(x.Send, p.cut(send, 3, l.rank, peer))
		recv = append(recv, make([]byte, len(p.data(peer, l.rank))))
	}
	set := func() {
		for i, peer := range peers {
			x.Recv = append(x.Recv, p.cut(recv[i], 4, l.rank, peer))
		}
	}
	called := 0
	if head {
		x.Head = p.head(l.rank)
		x.Heads = func(heads [][]byte) error {
			called++
			for i, peer := range peers {
				if !bytes.Equal(heads[i], p.head(peer)) {
					return fmt.Errorf("head of rank %d is not what it sent", peer)
				}
				for _, b := range recv[i] {
					if b != 0 {
						return fmt.Errorf("data of rank %d has come before its head was read", peer)
					}
				}
			}
			set()
			return nil
		}
	} else {
		set()
	}
	if err := l.Exchange(ctx, x); err != nil {
		return err
	}
	if head && called != 1 {
		return fmt.Errorf("heads were shown %d times, want once", called)
	}
	for i, peer := range peers {
		if !bytes.Equal(recv[i], p.data(peer, l.rank)) {
			return fmt.Errorf("data of rank %d, %d bytes, is not what it sent", peer, len(recv[i]))
		}
	}
	return nil
}
