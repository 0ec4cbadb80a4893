//go:build linux || darwin

package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// Each word that a peer can write is made wrong in turn: the error says what is wrong.
func TestCorruptWords(t *testing.T) {
	view := appendPlacesBody(nil, 0, 1<<30)
	for _, c := range []struct {
		name string
		harm func(own, peer *segment) // of rank 1, whose exchange then fails; of rank 0, the culprit
		want string
	}{
		{"written far", func(own, peer *segment) { peer.word64(peer.channel(1) + atWritten).Store(1 << 40) }, "has put 1099511627776 bytes where 0 were taken of its ring of 4096"},
		{"written by one too many", func(own, peer *segment) { peer.word64(peer.channel(1) + atWritten).Store(4097) }, "has put 4097 bytes where 0"},
		{"written back", func(own, peer *segment) { peer.word64(peer.channel(1) + atWritten).Store(math.MaxUint64) }, "bytes where 0 were taken"},
		{"taken far", func(own, peer *segment) { own.word64(own.channel(0) + atTaken).Store(1 << 40) }, "has taken 1099511627776 bytes of the "},
		{"read too much", func(own, peer *segment) { own.word64(own.channel(0) + atRead).Store(8193) }, "has read 8193 bytes of the 8192 it was given"},
		{"state", func(own, peer *segment) { peer.state().Store(5) }, "has 0x5 for its state"},
		{"zeros", func(own, peer *segment) { put(peer, make([]byte, recordBytes)) }, "sends a record of kind 0x0 of exchange 0, want a head of exchange 1"},
		{"number", func(own, peer *segment) { putRecord(peer, record{kind: kindHead, seq: 7}, nil) }, "sends a head of exchange 7, want a head of exchange 1"},
		{"long head", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1, bytes: link.MaxHead + 1}, nil)
		}, "sends a head of 16385 bytes"},
		{"longest head", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1, bytes: math.MaxUint64}, nil)
		}, "sends a head of 18446744073709551615 bytes"},
		{"sum", func(own, peer *segment) {
			b := appendRecord(nil, record{kind: kindHead, seq: 1, bytes: 3}, []byte("abc"), newTable())
			b[len(b)-1] ^= 1
			put(peer, b)
		}, "sends a head of exchange 1 whose sum is"},
		{"data first", func(own, peer *segment) { putRecord(peer, record{kind: kindData, seq: 1, bytes: 3}, nil) }, "sends data of exchange 1, want a head of exchange 1"},
		{"more data", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindData, seq: 1, bytes: 1<<40 + 1}, nil)
		}, "sends 1099511627777 bytes in exchange 1, want 100"},
		{"too many places", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindView, seq: 1, bytes: 100, places: maxPlaces + 1}, nil)
		}, "sends data in 1025 places"},
		{"place too long", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindView, seq: 1, bytes: 100, places: 1}, view)
		}, "sends a place of 1073741824 bytes at 0x0, want 1 to 100"},
		{"places too short", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindView, seq: 1, bytes: 100, places: 1}, appendPlacesBody(nil, 0, 99))
		}, "sends places of 99 bytes, want 100"},
		{"place outside", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindView, seq: 1, bytes: 100, places: 1}, appendPlacesBody(nil, 1<<50, 100))
		}, "has 0 bytes of shared memory, want 100 from 1125899906842624 on"},
		{"place before", func(own, peer *segment) {
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindView, seq: 1, bytes: 100, places: 1}, appendPlacesBody(nil, math.MaxUint64-200, 100))
		}, "bytes of shared memory, want 100 from -201 on"},
		{"given", func(own, peer *segment) {
			peer.given().Store(1 << 50)
			putRecord(peer, record{kind: kindHead, seq: 1}, nil)
			putRecord(peer, record{kind: kindView, seq: 1, bytes: 100, places: 1}, appendPlacesBody(nil, 1<<40, 100))
		}, "has given out 1125899906842624 bytes of shared memory, want at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			links := connectAll(t, jaccltest.Sites(2), Options{Ring: minRing, Reserve: 1 << 20})
			l := links[1]
			send := make([]byte, 8192)
			if c.name == "read too much" {
				var err error
				send, err = l.Alloc(8192)
				require.NoError(t, err)
			}
			c.harm(l.own, links[0].own)
			x := &link.Exchange{Peers: []int{0}, Head: []byte("head"), Send: [][][]byte{{send}}, Recv: [][][]byte{{make([]byte, 100)}}}
			err := l.Exchange(deadline(t), x)
			require.ErrorContains(t, err, "shm: rank 0 on host0 ")
			require.ErrorContains(t, err, c.want)
			var lost *link.PeerError
			require.ErrorAs(t, err, &lost)
		})
	}
}

func appendPlacesBody(b []byte, at, n uint64) []byte {
	for _, v := range []uint64{at, n} {
		for i := range 8 {
			b = append(b, byte(v>>(8*i)))
		}
	}
	return b
}

// put writes into the ring from the segment's rank, 0, to rank 1.
func put(s *segment, b []byte) {
	p := newProducer(s, 1)
	p.at = p.written.Load()
	if n, err := p.put(b); err != nil || n != len(b) {
		panic(fmt.Sprint(n, err))
	}
	p.show()
}

func putRecord(s *segment, r record, body []byte) { put(s, appendRecord(nil, r, body, newTable())) }

// A peer that writes anything anywhere causes errors or wrong data, but no panic, no
// access out of bounds and no exchange that never ends.
func FuzzHostile(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		links := connectAll(t, jaccltest.Sites(3), Options{Ring: minRing, Reserve: 1 << 20})
		ctx, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
		defer cancel()
		stop := make(chan struct{})
		var vandal sync.WaitGroup
		vandal.Go(func() {
			r := rand.New(rand.NewPCG(seed, 3))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				vandalise(r, links[r.IntN(2)].own, int(seed%4))
				time.Sleep(time.Duration(r.IntN(200)) * time.Microsecond)
			}
		})
		errs := all(links, func(l *transport) error {
			arena, err := l.Alloc(64 << 10)
			if err != nil {
				return err
			}
			for n := 0; ; n++ {
				size := []int{10, 5000, 40000}[n%3]
				x := &link.Exchange{Peers: others(l.rank, 3), Head: make([]byte, 10*n%1000)}
				for range x.Peers {
					send := make([]byte, size)
					if n%2 == 0 {
						send = arena[:size]
					}
					x.Send = append(x.Send, [][]byte{send})
					x.Recv = append(x.Recv, [][]byte{make([]byte, size)})
				}
				x.Heads = func([][]byte) error { return nil }
				if err := l.Exchange(ctx, x); err != nil {
					return err
				}
				if _, err := l.View(0, 0, 1000); err != nil && ctx.Err() != nil {
					return err
				}
			}
		})
		close(stop)
		vandal.Wait()
		for rank, err := range errs {
			var lost *link.PeerError
			if !errors.As(err, &lost) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("rank %d: %v, want an error about a peer or the end of the context", rank, err)
			}
		}
	})
}

// vandalise changes one word of a segment as a peer's process might. It uses atomic
// stores, where a peer might use any.
func vandalise(r *rand.Rand, s *segment, where int) {
	at := int64(8 * r.IntN(int(s.arena)/8)) // anywhere
	switch where {
	case 1: // an index
		at = s.channel(r.IntN(3)) + []int64{atWritten, atTaken, atRead}[r.IntN(3)]
	case 2: // the header
		at = []int64{atState, atGiven, atBell, atAsleep}[r.IntN(4)]
	case 3: // a ring's beginning, where records lie
		at = s.rings(2*r.IntN(2)) + int64(8*r.IntN(16))
		if s.rank == 0 {
			at = s.rings(1+r.IntN(2)) + int64(8*r.IntN(16))
		}
	}
	v := []uint64{0, 1, 255, 1 << 32, math.MaxUint64, r.Uint64(), uint64(r.IntN(10000))}[r.IntN(7)]
	if r.IntN(2) == 0 { // a little off
		s.word64(at).Add(uint64(r.IntN(9)) - 4)
		return
	}
	s.word64(at).Store(v)
}
