package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// movers are the two ways to move bytes.
func movers() map[string]func([]net.Conn) (mover, error) {
	return map[string]func([]net.Conn) (mover, error){"sockets": sockets, "streams": newStreams}
}

// links connects n ranks of this process.
func links(t testing.TB, n int, move func([]net.Conn) (mover, error)) []link.Link {
	t.Helper()
	sites := jaccltest.Sites(n)
	ls, errs := make([]link.Link, n), make([]error, n)
	var wg sync.WaitGroup
	for i, s := range sites {
		wg.Go(func() {
			conns, err := s.Dial(context.Background(), "test")
			if err != nil {
				errs[i] = err
				return
			}
			ls[i], errs[i] = connect(s, conns, move)
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	t.Cleanup(func() {
		for _, l := range ls {
			require.NoError(t, l.Close())
			require.NoError(t, l.Close())
		}
	})
	return ls
}

// together runs f for all links at once and fails with the first error.
func together(t testing.TB, ls []link.Link, f func(l link.Link) error) {
	t.Helper()
	for i, err := range apart(ls, f) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
}

func apart(ls []link.Link, f func(l link.Link) error) []error {
	errs := make([]error, len(ls))
	var wg sync.WaitGroup
	for i, l := range ls {
		wg.Go(func() {
			if errs[i] = f(l); errs[i] != nil {
				l.Close() // so that the others do not wait
			}
		})
	}
	wg.Wait()
	return errs
}

func others(l link.Link) []int {
	var ranks []int
	for r := range l.Size() {
		if r != l.Rank() {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// content is what rank from sends to rank to in one exchange.
func content(from, to, turn, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(from<<16|to), uint64(turn)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// cut cuts b into pieces, some of them empty.
func cut(b []byte, r *rand.Rand) [][]byte {
	var out [][]byte
	for len(b) > 0 && len(out) < 200 {
		n := min(r.IntN(len(b)+1), r.IntN(len(b)+1), len(b))
		out, b = append(out, b[:n:n]), b[n:]
	}
	return append(out, b)
}

// Sizes, cuts, heads, no heads and partial meshes in any order; every byte arrives
// where it belongs, and the account is right.
func TestExchange(t *testing.T) {
	for name, move := range movers() {
		for _, n := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				together(t, links(t, n, move), func(l link.Link) error {
					mine := rand.New(rand.NewPCG(uint64(l.Rank()), 3))
					for turn := range 80 {
						if err := random(l, turn, mine); err != nil {
							return fmt.Errorf("turn %d: %w", turn, err)
						}
					}
					return nil
				})
			})
		}
	}
}

func random(l link.Link, turn int, mine *rand.Rand) error {
	common := rand.New(rand.NewPCG(uint64(turn), 7))
	sizes := []int{0, 1, 4096, 100, 8165, 70_000, 8192, 8191, 300_000, 2_000_000}
	most := len(sizes)
	if turn%10 != 0 {
		most -= 2
	}
	size := func(from, to int) int {
		return sizes[rand.New(rand.NewPCG(uint64(turn), uint64(from<<8|to))).IntN(most)]
	}
	heads := common.IntN(2) == 0
	x := &link.Exchange{}
	excluded := -1
	if l.Size() > 2 && common.IntN(3) == 0 {
		excluded = common.IntN(l.Size())
	}
	if excluded == l.Rank() {
		return nil
	}
	for _, r := range others(l) {
		if r != excluded {
			x.Peers = append(x.Peers, r)
		}
	}
	var want, got [][]byte
	recv := make([][][]byte, len(x.Peers))
	for i, r := range x.Peers {
		x.Send = append(x.Send, cut(content(l.Rank(), r, turn, size(l.Rank(), r)), mine))
		want = append(want, content(r, l.Rank(), turn, size(r, l.Rank())))
		got = append(got, make([]byte, len(want[i])))
		recv[i] = cut(got[i], mine)
	}
	came := 0
	if heads {
		headOf := func(r int) []byte { return content(r, 99, turn, []int{1, 30, 9000, link.MaxHead}[(r+turn)%4]) }
		x.Head = headOf(l.Rank())
		x.Heads = func(heads [][]byte) error {
			for i, h := range heads {
				if !bytes.Equal(h, headOf(x.Peers[i])) {
					return fmt.Errorf("head of rank %d has %d bytes, or others", x.Peers[i], len(h))
				}
			}
			came++
			x.Recv = recv
			return nil
		}
	} else {
		x.Recv = recv
	}
	ctx := context.Background()
	if turn%2 == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	if err := l.Exchange(ctx, x); err != nil {
		return err
	}
	if heads && came != 1 {
		return fmt.Errorf("heads were shown %d times", came)
	}
	for i, r := range x.Peers {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("%d bytes of rank %d are not what it sent", len(got[i]), r)
		}
	}
	return nil
}

// Every rank sends more than any socket buffers before any rank has read anything.
func TestLargeAtOnce(t *testing.T) {
	const n, size = 3, 24 << 20
	for name, move := range movers() {
		t.Run(name, func(t *testing.T) {
			together(t, links(t, n, move), func(l link.Link) error {
				x := &link.Exchange{Peers: others(l)}
				for _, r := range x.Peers {
					b := make([]byte, size)
					b[0], b[size-1] = byte(l.Rank()), byte(r)
					x.Send, x.Recv = append(x.Send, [][]byte{b}), append(x.Recv, [][]byte{make([]byte, size)})
				}
				if err := l.Exchange(context.Background(), x); err != nil {
					return err
				}
				for i, r := range x.Peers {
					if b := x.Recv[i][0]; b[0] != byte(r) || b[size-1] != byte(l.Rank()) {
						return fmt.Errorf("from %d: %d %d", r, b[0], b[size-1])
					}
				}
				return nil
			})
		})
	}
}

// A context that ends, and Close, end an exchange that waits for a head, that
// waits for data and that waits to send.
func TestInterrupted(t *testing.T) {
	errStop := errors.New("stop")
	waits := map[string]func(l link.Link, x *link.Exchange){
		"head": func(l link.Link, x *link.Exchange) { x.Head = []byte("x") },
		"data": func(l link.Link, x *link.Exchange) { x.Recv = [][][]byte{{make([]byte, 100)}} },
		"send": func(l link.Link, x *link.Exchange) { x.Send = [][][]byte{{make([]byte, 64<<20)}} },
	}
	for name, move := range movers() {
		for what, set := range waits {
			t.Run(name+"/"+what, func(t *testing.T) {
				ls := links(t, 2, move)
				ctx, cancel := context.WithCancelCause(context.Background())
				x := &link.Exchange{Peers: []int{1}}
				set(ls[0], x)
				result := make(chan error, 1)
				go func() { result <- ls[0].Exchange(ctx, x) }()
				time.Sleep(20 * time.Millisecond)
				cancel(errStop)
				if err := soon(t, result); !errors.Is(err, errStop) {
					t.Errorf("ended with %v, want the context's cause", err)
				}
				if err := ls[0].Exchange(context.Background(), x); !errors.Is(err, errStop) {
					t.Errorf("a later one: %v, want the same", err)
				}

				ls = links(t, 2, move)
				set(ls[0], x)
				go func() { result <- ls[0].Exchange(context.Background(), x) }()
				time.Sleep(20 * time.Millisecond)
				ls[0].Close()
				if err := soon(t, result); !errors.Is(err, errClosed) {
					t.Errorf("ended with %v, want that the link is closed", err)
				}
			})
		}
	}
}

func soon(t *testing.T, result chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("it did not return")
		return nil
	}
}

// If a peer closes, ranks that wait for the peer, now or later, get a PeerError.
func TestPeerCloses(t *testing.T) {
	for name, move := range movers() {
		t.Run(name, func(t *testing.T) {
			ls := links(t, 3, move)
			together(t, ls, func(l link.Link) error {
				return l.Exchange(context.Background(), &link.Exchange{Peers: others(l), Head: []byte("first")})
			})
			result := make(chan error, 1)
			go func() {
				result <- ls[0].Exchange(context.Background(), &link.Exchange{Peers: []int{1, 2}, Head: []byte("second")})
			}()
			time.Sleep(20 * time.Millisecond)
			ls[2].Close()
			for i, err := range []error{soon(t, result), ls[1].Exchange(context.Background(), &link.Exchange{Peers: []int{2}, Recv: [][][]byte{{make([]byte, 5)}}})} {
				var pe *link.PeerError
				if !errors.As(err, &pe) || pe.Peer != 2 || !strings.Contains(err.Error(), "rank 2 (host2): receiving frame 1, 0 bytes of it there: ") {
					t.Errorf("rank %d: %v, want a PeerError about rank 2", i, err)
				}
			}
		})
	}
}

// What was sent before a Close can still be read after it.
func TestLastWords(t *testing.T) {
	for name, move := range movers() {
		t.Run(name, func(t *testing.T) {
			ls := links(t, 2, move)
			const size = 100_000
			require.NoError(t, ls[0].Exchange(context.Background(), &link.Exchange{Peers: []int{1}, Send: [][][]byte{{bytes.Repeat([]byte("a"), size)}}}))
			ls[0].Close()
			got := make([]byte, size)
			require.NoError(t, ls[1].Exchange(context.Background(), &link.Exchange{Peers: []int{0}, Recv: [][][]byte{{got}}}))
			if !bytes.Equal(got, bytes.Repeat([]byte("a"), size)) {
				t.Errorf("other bytes than were sent")
			}
		})
	}
}

// If ranks state different lengths, or only one of them has a head, the error says what
// both have, before a byte is written.
func TestDisagree(t *testing.T) {
	buf := func(n int) [][][]byte { return [][][]byte{{bytes.Repeat([]byte{0xa5}, n)}} }
	cases := map[string]struct {
		send, recv *link.Exchange
		want       string
	}{
		"length":     {&link.Exchange{Send: buf(10)}, &link.Exchange{Recv: buf(12)}, "it sends 10 bytes of data, want 12"},
		"after head": {&link.Exchange{Head: []byte("a"), Send: buf(10)}, &link.Exchange{Head: []byte("b"), Recv: buf(8)}, "it sends 10 bytes of data, want 8"},
		"head":       {&link.Exchange{Head: []byte("abc"), Send: buf(10)}, &link.Exchange{Recv: buf(10)}, "head of 3 bytes, want at most 0"},
	}
	for name, move := range movers() {
		for what, c := range cases {
			t.Run(name+"/"+what, func(t *testing.T) {
				ls := links(t, 2, move)
				send, recv := c.send, c.recv
				send.Peers, recv.Peers = []int{1}, []int{0}
				sent := make(chan error, 1)
				go func() { sent <- ls[0].Exchange(context.Background(), send) }()
				err := ls[1].Exchange(context.Background(), recv)
				ls[1].Close()
				soon(t, sent)
				var pe *link.PeerError
				if !errors.As(err, &pe) || pe.Peer != 0 || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				for _, b := range recv.Recv[0][0] {
					if b != 0xa5 {
						t.Fatalf("the buffer was written")
					}
				}
			})
		}
	}
}

// An error of Heads ends the exchange and is returned as it is.
func TestHeadsError(t *testing.T) {
	errMine := errors.New("not that")
	for name, move := range movers() {
		t.Run(name, func(t *testing.T) {
			ls := links(t, 2, move)
			errs := apart(ls, func(l link.Link) error {
				return l.Exchange(context.Background(), &link.Exchange{
					Peers: others(l), Head: []byte("x"), Heads: func([][]byte) error { return errMine },
					Send: [][][]byte{{make([]byte, 10)}},
				})
			})
			for i, err := range errs {
				if err != errMine {
					t.Errorf("rank %d: %v, want the error of Heads", i, err)
				}
			}
		})
	}
}

// late is a connection whose bytes take a while to leave.
type late struct{ net.Conn }

func (c late) Write(b []byte) (int, error) {
	time.Sleep(50 * time.Millisecond)
	return c.Conn.Write(b)
}

// A rank that refuses the others' heads has sent its own head before.
func TestHeadsErrorIsMutual(t *testing.T) {
	errMine := errors.New("not that")
	ls := links(t, 2, func(conns []net.Conn) (mover, error) {
		if conns[0] == nil { // on rank 0
			conns[1] = late{conns[1]}
		}
		return newStreams(conns)
	})
	for i, err := range apart(ls, func(l link.Link) error {
		return l.Exchange(context.Background(), &link.Exchange{Peers: others(l), Head: []byte("x"), Heads: func([][]byte) error { return errMine }})
	}) {
		if err != errMine {
			t.Errorf("rank %d: %v, want the error of Heads", i, err)
		}
	}
}

func TestUnusable(t *testing.T) {
	l := links(t, 3, sockets)[1]
	for want, x := range map[string]*link.Exchange{
		"peers [1]":           {Peers: []int{1}},
		"peers [2 0]":         {Peers: []int{2, 0}},
		"peers [0 0]":         {Peers: []int{0, 0}},
		"peers [3]":           {Peers: []int{3}},
		"peers [-1]":          {Peers: []int{-1}},
		"head of 16385 bytes": {Peers: []int{0}, Head: make([]byte, link.MaxHead+1)},
	} {
		if err := l.Exchange(context.Background(), x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Bytes that are not a frame, or not the next frame, cause errors that say what was wanted.
func TestGarbage(t *testing.T) {
	next := frame.Append(nil, frame.Header{Type: typeExchange}, []byte("head"))
	damaged := bytes.Clone(next)
	damaged[len(damaged)-1] ^= 1
	cases := map[string][]byte{
		`rank 1 (host1): receiving frame 0, 37 bytes of it there: frame: not a frame of gomoe: it begins with "GET / HT"`: []byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
		"frame 3 of type 1, want 0 of type 1":       frame.Append(nil, frame.Header{Type: typeExchange, Seq: 3}, []byte("head")),
		"frame 0 of type 9, want 0 of type 1":       frame.Append(nil, frame.Header{Type: 9}, []byte("head")),
		"frame: checksum of frame 0 is 0x":          damaged,
		"head of 16385 bytes, want at most 16384":   frame.Append(nil, frame.Header{Type: typeExchange}, make([]byte, link.MaxHead+1)),
		"it sends 5 bytes of data, want 0":          frame.Append(nil, frame.Header{Type: typeExchange, Data: 5}, []byte("head")),
		"receiving frame 0, 32 bytes of it there: ": frame.Append(nil, frame.Header{Type: typeExchange}, make([]byte, 10))[:frame.Size+4],
	}
	for name, move := range movers() {
		for want, sent := range cases {
			sites := jaccltest.Sites(2)
			var raw []net.Conn
			var wg sync.WaitGroup
			wg.Go(func() { raw, _ = sites[1].Dial(context.Background(), "test") })
			conns, err := sites[0].Dial(context.Background(), "test")
			wg.Wait()
			require.NoError(t, err)
			l, err := connect(sites[0], conns, move)
			require.NoError(t, err)
			_, err = raw[0].Write(sent)
			require.NoError(t, err)
			require.NoError(t, raw[0].(*net.TCPConn).CloseWrite())
			err = l.Exchange(context.Background(), &link.Exchange{Peers: []int{1}, Head: []byte("x")})
			var pe *link.PeerError
			if !errors.As(err, &pe) || pe.Peer != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			l.Close()
			raw[0].Close()
		}
	}
}

// After Close no goroutine runs and no file is open.
func TestNothingLeft(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors()
	for _, move := range movers() {
		ls := links(t, 4, move)
		together(t, ls, func(l link.Link) error {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			return l.Exchange(ctx, &link.Exchange{Peers: others(l), Head: []byte("x")})
		})
		for _, l := range ls {
			l.Close()
		}
	}
	for range 200 {
		if runtime.NumGoroutine() <= goroutines && descriptors() <= files {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before; %d open files, %d before", runtime.NumGoroutine(), goroutines, descriptors(), files)
}

// descriptors returns the number of open files of this process, or 0 if the system does
// not tell.
func descriptors() int {
	open, _ := os.ReadDir("/proc/self/fd")
	return len(open)
}
