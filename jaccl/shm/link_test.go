//go:build linux || darwin

package shm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
)

// patience bounds what does not hang.
const patience = 20 * time.Second

func deadline(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// all runs f for every rank at once and returns the errors.
func all(links []*link, f func(l *link) error) []error {
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = f(l) })
	}
	wg.Wait()
	return errs
}

func succeed(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func others(rank, n int) []int {
	var out []int
	for r := range n {
		if r != rank {
			out = append(out, r)
		}
	}
	return out
}

// plan is what all ranks know of an exchange: sizes and contents follow from a seed.
type plan struct{ n, seed int }

func (p plan) rng(words ...int) *rand.Rand {
	seed := uint64(p.seed)
	for _, w := range words {
		seed = seed*1000003 + uint64(w) + 1
	}
	return rand.New(rand.NewPCG(seed, 7))
}

// data is what a rank sends to another.
func (p plan) data(from, to int) []byte {
	r := p.rng(1, from, to)
	sizes := []int{0, 1, 31, r.IntN(300), 4096, r.IntN(9000), r.IntN(200_000), 1 << 20}
	b := make([]byte, sizes[r.IntN(len(sizes))])
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (p plan) head(from int) []byte {
	r := p.rng(2, from)
	b := make([]byte, []int{0, 1, 100, r.IntN(jaccl.MaxHead), jaccl.MaxHead}[r.IntN(5)])
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// cut cuts b into parts, of which some are empty.
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

// play makes the exchange of the plan on one rank with peers, and checks it. arena
// is memory to send from, nil for private memory.
func (p plan) play(ctx context.Context, l *link, peers []int, head bool, arena []byte) error {
	x := &jaccl.Exchange{Peers: peers}
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

// Every rank exchanges with all others, then pairs among themselves, for all kinds
// of lengths and cuts, from private memory and from the arena.
func TestExchange(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for _, ring := range []int{minRing, 64 << 10, 0} {
			t.Run(fmt.Sprintf("ranks=%d ring=%d", n, ring), func(t *testing.T) {
				links := connectAll(t, jaccltest.Sites(n), Options{Ring: ring})
				ctx := deadline(t)
				succeed(t, all(links, func(l *link) error {
					arena, err := l.Alloc(2 << 20)
					if err != nil {
						return err
					}
					for seed := range 12 {
						p := plan{n, seed}
						if err := p.play(ctx, l, others(l.rank, n), seed%3 > 0, arena); err != nil {
							return fmt.Errorf("exchange %d: %w", seed, err)
						}
						if mate := l.rank ^ 1; mate < n {
							if err := p.play(ctx, l, []int{mate}, seed%2 > 0, nil); err != nil {
								return fmt.Errorf("pair %d: %w", seed, err)
							}
						}
					}
					return nil
				}))
			})
		}
	}
}

// What one rank has done, as far as the account says.
func TestExchangeMayRunAhead(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	// Rank 0 sends and does not wait for rank 1 to come.
	for i := range 10 {
		require.NoError(t, links[0].Exchange(ctx, &jaccl.Exchange{Peers: []int{1}, Send: [][][]byte{{{byte(i)}}}}))
	}
	require.NoError(t, links[0].Close())
	for i := range 10 { // nor does it take back what it has sent
		got := make([]byte, 1)
		require.NoError(t, links[1].Exchange(ctx, &jaccl.Exchange{Peers: []int{0}, Recv: [][][]byte{{got}}}))
		require.Equal(t, byte(i), got[0])
	}
	err := links[1].Exchange(ctx, &jaccl.Exchange{Peers: []int{0}, Recv: [][][]byte{{make([]byte, 1)}}})
	var lost *jaccl.PeerError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, 0, lost.Peer)
	require.ErrorContains(t, err, "rank 0 on host0 has closed its link")
	require.ErrorContains(t, links[1].Exchange(ctx, &jaccl.Exchange{}), "an earlier one has failed")
}

// Each side says how much there is: they have to agree.
func TestExchangeMismatch(t *testing.T) {
	for _, c := range []struct {
		name         string
		head         []byte
		send, expect int
		arena        bool
		want         string
	}{
		{"less", nil, 10, 11, false, "rank 0 on host0 sends 10 bytes in exchange 1, want 11"},
		{"more", nil, 12, 11, false, "rank 0 on host0 sends 12 bytes in exchange 1, want 11"},
		{"arena", nil, 8192, 8193, true, "rank 0 on host0 sends 8192 bytes in exchange 1, want 8193"},
		{"head for data", []byte("x"), 0, 11, false, "rank 0 on host0 sends a head of exchange 1, want data of exchange 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			links := connectAll(t, jaccltest.Sites(2), Options{})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			errs := all(links, func(l *link) error {
				x := &jaccl.Exchange{}
				if l.rank == 0 {
					send, err := make([]byte, c.send), error(nil)
					if c.arena {
						if send, err = l.Alloc(c.send); err != nil {
							return err
						}
					}
					x = &jaccl.Exchange{Peers: []int{1}, Head: c.head, Send: [][][]byte{{send}}}
				} else {
					x = &jaccl.Exchange{Peers: []int{0}, Recv: [][][]byte{{make([]byte, c.expect)}}}
				}
				err := l.Exchange(ctx, x)
				if l.rank == 1 {
					l.Close() // lets rank 0 go
				}
				return err
			})
			require.ErrorContains(t, errs[1], c.want)
			var lost *jaccl.PeerError
			require.ErrorAs(t, errs[1], &lost)
		})
	}
}

// The next exchange finds data that the last one did not want.
func TestExchangeLeftOver(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	require.NoError(t, links[0].Exchange(ctx, &jaccl.Exchange{Peers: []int{1}, Send: [][][]byte{{{1}}}}))
	require.NoError(t, links[1].Exchange(ctx, &jaccl.Exchange{Peers: []int{0}}))
	err := links[1].Exchange(ctx, &jaccl.Exchange{Peers: []int{0}, Recv: [][][]byte{{make([]byte, 1)}}})
	require.ErrorContains(t, err, "rank 0 on host0 sends data of exchange 1, want data of exchange 2")
}

func TestBadArguments(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(3), Options{})
	l := links[1]
	for _, c := range []struct {
		x    *jaccl.Exchange
		want string
	}{
		{&jaccl.Exchange{Peers: []int{1}}, "rank 1 of 3 with peers [1]"},
		{&jaccl.Exchange{Peers: []int{2, 0}}, "ascending"},
		{&jaccl.Exchange{Peers: []int{0, 0}}, "ascending"},
		{&jaccl.Exchange{Peers: []int{3}}, "peers [3]"},
		{&jaccl.Exchange{Peers: []int{-1}}, "peers [-1]"},
		{&jaccl.Exchange{Peers: []int{0}, Send: make([][][]byte, 2)}, "buffers to send for 2"},
		{&jaccl.Exchange{Peers: []int{0}, Recv: make([][][]byte, 3)}, "to receive for 3 of 1 peers"},
		{&jaccl.Exchange{Peers: []int{0}, Head: make([]byte, jaccl.MaxHead+1)}, "head of 16385 bytes, want at most 16384"},
	} {
		require.ErrorContains(t, l.Exchange(deadline(t), c.x), c.want)
	}
	ctx := deadline(t)
	succeed(t, all(links, func(l *link) error { // none of it has cost anything
		return plan{3, 1}.play(ctx, l, others(l.rank, 3), true, nil)
	}))
}

var errSeeded = errors.New("seeded")

func TestHeadsError(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{})
	ctx := deadline(t)
	got := make([]byte, 100)
	errs := all(links, func(l *link) error {
		x := &jaccl.Exchange{Peers: others(l.rank, 2), Head: []byte("head"), Send: [][][]byte{{bytes.Repeat([]byte{1}, 100)}}, Recv: [][][]byte{{make([]byte, 100)}}}
		x.Heads = func([][]byte) error { return nil }
		if l.rank == 1 {
			x.Recv = [][][]byte{{got}}
			x.Heads = func([][]byte) error { return errSeeded }
		}
		return l.Exchange(ctx, x)
	})
	require.NoError(t, errs[0])
	require.Equal(t, errSeeded, errs[1])
	require.Equal(t, make([]byte, 100), got)
}

// The heads of an exchange come together or not at all.
func TestHeadsWaitForAll(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(3), Options{})
	ctx, cancel := context.WithCancelCause(deadline(t))
	defer cancel(nil)
	came := make(chan struct{})
	errs := all(links, func(l *link) error {
		if l.rank == 2 {
			<-came
			cancel(errSeeded)
			return nil
		}
		x := &jaccl.Exchange{Peers: others(l.rank, 3), Head: []byte("head")}
		x.Heads = func([][]byte) error { return errors.New("shown before the head of rank 2 came") }
		if l.rank == 0 {
			go func() {
				defer close(came)
				for i := 0; i < 2000 && !l.sawHead(x); i++ {
					time.Sleep(time.Millisecond)
				}
			}()
		}
		return l.Exchange(ctx, x)
	})
	require.Equal(t, errSeeded, errs[0])
	require.Equal(t, errSeeded, errs[1])
}

// sawHead reports whether rank 1's ring has been read to the end of its head.
func (l *link) sawHead(*jaccl.Exchange) bool {
	return l.peers[1].in.ring.taken.Load() == recordBytes+4
}

// A context that ends ends an exchange, whatever that waits for.
func TestContext(t *testing.T) {
	for name, x := range map[string]*jaccl.Exchange{
		"head":  {Peers: []int{1}, Head: []byte("head")},
		"data":  {Peers: []int{1}, Recv: [][][]byte{{make([]byte, 1)}}},
		"room":  {Peers: []int{1}, Send: [][][]byte{{make([]byte, 1<<20)}}},
		"arena": {Peers: []int{1}},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%v", name, after), func(t *testing.T) {
				links := connectAll(t, jaccltest.Sites(2), Options{})
				if name == "arena" {
					send, err := links[0].Alloc(1 << 20)
					require.NoError(t, err)
					x.Send = [][][]byte{{send}}
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				if after == 0 {
					cancel(errSeeded)
				} else {
					time.AfterFunc(after, func() { cancel(errSeeded) })
				}
				returns(t, func() { require.Equal(t, errSeeded, links[0].Exchange(ctx, x)) })
			})
		}
	}
}

// returns fails if f takes so long that it may as well hang.
func returns(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it did not return")
	}
}

// Close makes this rank's exchange return, and those of its peers.
func TestClose(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%v", before), func(t *testing.T) {
			links := connectAll(t, jaccltest.Sites(3), Options{})
			ctx := deadline(t)
			if before {
				require.NoError(t, links[2].Close())
			} else {
				time.AfterFunc(20*time.Millisecond, func() { links[2].Close() })
			}
			errs := all(links, func(l *link) error { // each waits for what never comes
				from := []int{2}
				if l.rank == 2 {
					from = []int{0}
				}
				return l.Exchange(ctx, &jaccl.Exchange{Peers: from, Recv: [][][]byte{{make([]byte, 1)}}})
			})
			for _, err := range errs[:2] {
				var lost *jaccl.PeerError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, 2, lost.Peer)
				require.ErrorContains(t, err, "shm: rank 2 on host2 has closed its link")
			}
			require.ErrorIs(t, errs[2], jaccl.ErrClosed)
			require.NoError(t, links[2].Close())
			_, err := links[2].Alloc(1)
			require.ErrorIs(t, err, jaccl.ErrClosed)
			_, err = links[2].View(0, 0, 0)
			require.ErrorIs(t, err, jaccl.ErrClosed)
			_, ok := links[2].Locate([]byte{1})
			require.False(t, ok)
		})
	}
}

// Ranks that sleep are woken: by data, by room, by a head.
func TestWake(t *testing.T) {
	links := connectAll(t, jaccltest.Sites(2), Options{Ring: minRing})
	ctx := deadline(t)
	succeed(t, all(links, func(l *link) error {
		for seed := range 6 {
			if seed%2 == l.rank {
				time.Sleep(5 * time.Millisecond)
			}
			if err := (plan{2, seed}).play(ctx, l, others(l.rank, 2), true, nil); err != nil {
				return err
			}
		}
		return nil
	}))
}

// elsewhere has ranks on another machine.
type elsewhere struct{ jaccl.Site }

func (elsewhere) SameHost(rank int) bool { return rank != 1 && rank != 2 }

func TestConnectElsewhere(t *testing.T) {
	_, err := Connect(context.Background(), elsewhere{jaccltest.Sites(4)[0]}, Options{})
	require.EqualError(t, err, "shm: connect: ranks [1 (host1) 2 (host2)] do not share the memory of rank 0 (host0); use another link")
}

// What is wrong on one rank is an error on all, which names it.
func TestConnectFails(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options // of rank 1
		want string
	}{
		{"ring", Options{Ring: 5000}, "rank 1 on host1 has no segment: a ring of 5000 bytes, want a power of two"},
		{"folder", Options{Dir: "/nowhere/at/all"}, "rank 1 on host1 has no segment: create /nowhere/at/all/gomoe-shm-"},
		{"reserve", Options{Reserve: -1}, "rank 1 on host1 has no segment: -1 bytes to reserve, want at most"},
		{"too much", Options{Reserve: 1 << 62}, "rank 1 on host1 has no segment: 4611686018427387904 bytes to reserve, want at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sites := jaccltest.Sites(3)
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for i, s := range sites {
				wg.Go(func() {
					o := Options{}
					if i == 1 {
						o = c.o
					}
					_, errs[i] = Connect(deadline(t), s, o)
				})
			}
			wg.Wait()
			for rank, err := range errs {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("rank %d: %v, want %q", rank, err, c.want)
				}
			}
		})
	}
}

// liar changes what rank 1 announces.
type liar struct {
	jaccl.Site
	lie func(a *announcement)
}

func (s liar) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	if key == "shm segments" {
		a, err := parseAnnouncement(mine)
		if err != nil {
			return nil, err
		}
		s.lie(&a)
		mine = encode(a)
	}
	return s.Site.Gather(ctx, key, mine)
}

func TestConnectLies(t *testing.T) {
	for _, c := range []struct {
		lie  func(a *announcement)
		want string
	}{
		{func(a *announcement) { a.Nonce[3]++ }, "has another segment than it has announced"},
		{func(a *announcement) { a.Nonce = a.Nonce[:5] }, "5 bytes to know it by, want 16"},
		{func(a *announcement) { a.Size += 4096 }, "bytes, want the "},
		{func(a *announcement) { a.Size = -5 }, "announces a segment of -5 bytes, want at least"},
		{func(a *announcement) { a.Size = 10 }, "announces a segment of 10 bytes, want at least"},
		{func(a *announcement) { a.Ring = 0 }, "announces a ring of 0 bytes"},
		{func(a *announcement) { a.Ring = 1 << 40 }, "announces a ring of 1099511627776 bytes"},
		{func(a *announcement) { a.Pid = -1 }, "announces process -1"},
		{func(a *announcement) { a.Path = "../x" }, `file "../x"`},
		{func(a *announcement) { a.Path = "/dev/null" }, "/dev/null is of user"},
		{func(a *announcement) { a.Pid, a.FD = 1<<30, 3 }, "can not be opened"},
		{func(a *announcement) { a.Error = "is tired" }, "rank 1 on host1 is tired"},
	} {
		sites := jaccltest.Sites(2)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, s := range sites {
			if i == 1 {
				s = liar{s, c.lie}
			}
			wg.Go(func() { _, errs[i] = Connect(deadline(t), s, Options{}) })
		}
		wg.Wait()
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("rank %d: %v, want %q", rank, err, c.want)
			}
		}
	}
}

func FuzzAnnouncement(f *testing.F) {
	f.Add(encode(announcement{Pid: 3, Size: 5, Nonce: make([]byte, nonceBytes)}))
	f.Add([]byte(`{"pid":1}{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnnouncement(b)
		if err != nil {
			return
		}
		if again, err := parseAnnouncement(encode(a)); err != nil || again.Pid != a.Pid || again.Path != a.Path {
			t.Errorf("%+v is read as %+v, %v", a, again, err)
		}
		if s, err := newLayout(1, 3, a.Ring, a.Size, 4096); err == nil && (s.rings(0) < s.channel(3) || s.rings(2)+int64(s.ring) > s.arena || s.arena > s.size) {
			t.Errorf("layout %+v of %+v", s, a)
		}
	})
}

func FuzzRecord(f *testing.F) {
	table := newTable()
	f.Add(appendRecord(nil, record{kind: kindHead, seq: 1, bytes: 3}, []byte("abc"), table), true)
	places := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 4096), 10)
	f.Add(appendRecord(nil, record{kind: kindView, seq: 1, bytes: 10, places: 1}, places, table), false)
	f.Add(appendRecord(nil, record{kind: kindData, seq: 1, bytes: 10}, nil, table), false)
	f.Fuzz(func(t *testing.T, b []byte, head bool) {
		if len(b) < recordBytes {
			return
		}
		r, err := parseRecord(b[:recordBytes], head, 1)
		if err != nil {
			return
		}
		n := recordBytes + r.body()
		if n > recordBytes+jaccl.MaxHead || n < recordBytes {
			t.Fatalf("%+v has a body of %d bytes", r, r.body())
		}
		if len(b) < n {
			return
		}
		b = bytes.Clone(b[:n])
		if r.kind == kindView {
			if ps, err := appendPlaces(nil, b[recordBytes:], r.bytes); err == nil {
				total := uint64(0)
				for _, p := range ps {
					total += p.n
				}
				if total != r.bytes || len(ps) != int(r.places) {
					t.Errorf("%+v has places %v", r, ps)
				}
			}
		}
		if checkSum(r, bytes.Clone(b), table) == nil {
			if again := appendRecord(nil, r, b[recordBytes:], table); !bytes.Equal(again, b) {
				t.Errorf("%x is written as %x", b, again)
			}
		}
	})
}
