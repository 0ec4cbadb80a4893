package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/rdma"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// regionsOf is how many memory regions the link's lots take of the devices, as those
// know it: of all alike.
func regionsOf(t testing.TB, l *Link) int {
	t.Helper()
	n := -1
	for name, a := range l.adapters {
		if k := a.Regions(); n >= 0 && k != n {
			t.Fatalf("device %s knows %d regions and another %d", name, k, n)
		} else {
			n = k
		}
	}
	return n
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Leased memory begins at a page, is zeroed, outlives the link, and is used again.
func TestLease(t *testing.T) {
	links := linked(t, 3, "")
	l := links[0].(*Link)
	a, releaseA, err := l.Lease(100_000)
	require.NoError(t, err)
	b, releaseB, err := l.Lease(0)
	require.NoError(t, err)
	require.Len(t, b, 0)
	require.Len(t, a, 100_000)
	if cap(a) != len(a) || address(a)%uintptr(os.Getpagesize()) != 0 || slices.Max(a) != 0 {
		t.Errorf("a lease at %#x with room for %d, want the begin of a page of zeros, and no more room", address(a), cap(a))
	}
	if n := regionsOf(t, l); n != 2 {
		t.Errorf("two leases take %d regions of a device, want 2", n)
	}
	for i := range a {
		a[i] = 1
	}
	was := address(a)
	require.NoError(t, releaseA())
	require.NoError(t, releaseA())
	c, releaseC, err := l.Lease(99_999) // as many pages
	require.NoError(t, err)
	if address(c) != was || slices.Max(c) != 0 {
		t.Errorf("a lease of the same size lies at %#x, want at %#x where one has ended, zeroed", address(c), was)
	}
	d, releaseD, err := l.Lease(100_000) // which nothing is free for: A was released once
	require.NoError(t, err)
	if address(d) == was {
		t.Fatal("two leases lie in one place")
	}
	require.NoError(t, releaseD())
	if n := regionsOf(t, l); n != 3 {
		t.Errorf("three leases and a free one take %d regions of a device, want 3", n)
	}
	for _, l := range links {
		require.NoError(t, l.Close())
	}
	for i := range c { // still there
		c[i] = 2
	}
	require.NoError(t, releaseB())
	require.NoError(t, releaseC())
	require.NoError(t, releaseC())
	_, _, err = l.Lease(1)
	rdmatest.Contains(t, err, "rdma: lease of 1 bytes: rdma: link of rank 0", "closed")
	_, _, err = l.Lease(-1)
	rdmatest.Contains(t, err, "want none or more")
}

// addressSpace is how much the process has, 0 where that is not known.
func addressSpace() int {
	b, err := os.ReadFile("/proc/self/statm")
	pages := 0
	if err == nil {
		fmt.Sscan(string(b), &pages)
	}
	return pages * os.Getpagesize()
}

// Leases that have ended make room for others, of the budget and of the device, and only
// some of them stay. What is refused says the budget.
func TestLeaseBudget(t *testing.T) {
	page := os.Getpagesize()
	links := linked(t, 2, "")
	l := links[0].(*Link)
	space := addressSpace()
	for size := 1; size <= 300; size++ { // of different sizes, one at a time
		_, release, err := l.Lease(8<<20 + size*page)
		require.NoError(t, err, "%d pages", size)
		require.NoError(t, release())
		if n := regionsOf(t, l); n > spareLots || n != l.regions {
			t.Fatalf("%d free leases take regions, and %d are counted, want at most %d", n, l.regions, spareLots)
		}
	}
	if grown := addressSpace() - space; grown > 1<<30 { // of 2.4 GiB; the Go heap may have grown
		t.Errorf("300 leases that have ended take %d MiB, want those of %d", grown>>20, spareLots)
	}
	var releases []func() error
	for i := range 98 {
		_, release, err := l.Lease(page)
		require.NoError(t, err, "lease %d", i)
		releases = append(releases, release)
	}
	_, _, err := l.Lease(page)
	rdmatest.Contains(t, err, "rdma: lease of", "device rdma_en1 faces 1 ranks, which takes 2 memory regions, and 99 for leases, 101 in all, and has 100; release some")
	require.NoError(t, releases[0]())
	_, release, err := l.Lease(2 * page) // in the place of the free one
	require.NoError(t, err)
	require.NoError(t, release())
	for _, release := range releases {
		require.NoError(t, release())
	}
	if n := regionsOf(t, l); n != spareLots || l.regions != n {
		t.Errorf("%d regions are taken, %d counted, want those of %d free leases", n, l.regions, spareLots)
	}
}

// A device that has fewer regions than it should gets those of leases that have ended,
// and then refuses, which leaves nothing half done.
func TestLeaseRefused(t *testing.T) {
	page := os.Getpagesize()
	links := linked(t, 3, "mrs=4,silent=1") // two more than the slabs
	l := links[1].(*Link)
	a, releaseA, err := l.Lease(page)
	require.NoError(t, err)
	_, releaseB, err := l.Lease(2 * page)
	require.NoError(t, err)
	for range 3 {
		_, _, err = l.Lease(3 * page)
		rdmatest.Contains(t, err, "device rdma_en10: ibv_reg_mr: cannot allocate memory (errno 12); all memory regions")
	}
	require.NoError(t, releaseB())
	_, releaseC, err := l.Lease(3 * page)
	require.NoError(t, err)
	require.NoError(t, releaseC())
	if n := regionsOf(t, l); n != 2 || l.regions != 2 {
		t.Errorf("%d regions are taken, and %d counted, want 2", n, l.regions)
	}
	a[page-1] = 1
	require.NoError(t, releaseA())
}

// A device that faces several ranks knows a lease once for all of them.
func TestLeaseOfOneDevice(t *testing.T) {
	const n = 4
	devices := rdmatest.Mesh(n)
	for i := range devices {
		for k := range devices[i] {
			if i != k {
				devices[i][k] = []string{fmt.Sprint("mlx5_", i)}
			}
		}
	}
	links, errs := connectAll(t, n, devices, rdma.Settings{Library: rdmatest.Standin(t, "nic=1,mlx=1,mrs=7")}) // of which slabs are 6
	require.NoError(t, errors.Join(errs...))
	always := func(int, int) bool { return true }
	for round := range 3 {
		if got := direct(t, links, round, true, func(int, int) []int { return []int{10_001} }, always); slices.Max(got) != 0 {
			t.Errorf("%d bytes are staged, want none", got)
		}
	}
	for _, l := range links {
		if n := regionsOf(t, l.(*Link)); n != 1 {
			t.Errorf("a lease takes %d regions of the device, want 1", n)
		}
	}
}

// Nothing is leased again on a link that has failed: a peer may still write to it.
func TestLeaseOfBroken(t *testing.T) {
	links := linked(t, 2, "")
	l := links[0].(*Link)
	a, release, err := l.Lease(1000)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Error(t, l.Exchange(ctx, &link.Exchange{Peers: []int{1}, Recv: [][][]byte{{a}}}))
	require.NoError(t, release())
	_, _, err = l.Lease(1000)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want why the link is broken", err)
	}
	late := links[1].Exchange(rdmatest.Within(t, 3*time.Minute), &link.Exchange{Peers: []int{0}, Send: [][][]byte{{make([]byte, 1000)}}})
	require.NoError(t, late)
}

// direct is an exchange of all, the buffers of which lie in leases where in says, at any
// byte. It returns what the links have staged since the last one.
func direct(t *testing.T, links []link.Link, round int, alike bool, sizes func(from, to int) []int, in func(rank, piece int) bool) []int64 {
	t.Helper()
	ctx := rdmatest.Within(t, 3*time.Minute)
	was := make([]int64, len(links))
	for i, l := range links {
		out, in := l.(*Link).Staged()
		was[i] = out + in
	}
	errs := together(links, func(rank int, l link.Link) error {
		lease, release, err := l.(*Link).Lease(12 << 20)
		if err != nil {
			return err
		}
		defer release()
		rng := rand.New(rand.NewPCG(uint64(rank), uint64(round)))
		at := 0
		piece := func(k, n int) []byte { // with some bytes before and after that are not to be written
			if !in(rank, k) {
				return make([]byte, n)
			}
			at += 1 + rng.IntN(5000)
			b := lease[at : at+n : at+n]
			at += n
			return b
		}
		x := &link.Exchange{Alike: alike}
		var got, want [][]byte
		for peer := range links {
			if peer == rank {
				continue
			}
			x.Peers = append(x.Peers, peer)
			var send, recv [][]byte
			for k, n := range sizes(rank, peer) {
				b := piece(k, n)
				copy(b, rdmatest.Pattern(n, rank, peer, 100*round+k))
				send = append(send, b)
			}
			for k, n := range sizes(peer, rank) {
				b := piece(k, n)
				recv = append(recv, b)
				got, want = append(got, b), append(want, rdmatest.Pattern(n, peer, rank, 100*round+k))
			}
			x.Send, x.Recv = append(x.Send, send), append(x.Recv, recv)
		}
		before := bytes.Clone(lease)
		if err := l.Exchange(ctx, x); err != nil {
			return err
		}
		for i, b := range got {
			if !bytes.Equal(b, want[i]) {
				return fmt.Errorf("buffer %d of %d bytes has not what was sent", i, len(b))
			}
			if from := address(b) - address(lease); len(b) > 0 && from < uintptr(len(lease)) {
				copy(before[from:], b)
			}
		}
		if !bytes.Equal(lease, before) {
			return errors.New("a byte of the lease was written that is of no buffer")
		}
		return nil
	})
	require.NoError(t, errors.Join(errs...))
	for i, l := range links {
		out, in := l.(*Link).Staged()
		was[i] = out + in - was[i]
	}
	return was
}

// wipe clears the links' slabs, and used reports whether there is anything in one.
func wipe(links []link.Link) { eachSlab(links, func(b []byte) { clear(b) }) }

func used(links []link.Link) (any bool) {
	eachSlab(links, func(b []byte) { any = any || slices.Max(b) > 0 })
	return any
}

func eachSlab(links []link.Link, f func([]byte)) {
	for _, l := range links {
		for _, e := range l.(*Link).eps {
			if e != nil {
				f(e.SendSlab.B)
				f(e.RecvSlab.B)
			}
		}
	}
}

// What lies in leased memory, at whatever byte and of whatever length, is not copied on
// its way; all else is, and is right as well.
func TestDirect(t *testing.T) {
	one := func(n int) func(from, to int) []int { return func(int, int) []int { return []int{n} } }
	always, never := func(int, int) bool { return true }, func(int, int) bool { return false }
	for _, play := range []string{"", "nic=1"} {
		links := linked(t, 3, play)
		round := 0
		run := func(what string, alike bool, sizes func(from, to int) []int, in func(rank, piece int) bool, want ...int64) {
			round++
			if got := direct(t, links, round, alike, sizes, in); !slices.Equal(got, want) {
				t.Errorf("%q: %s, alike %v: %d bytes are staged by the ranks, want %d", play, what, alike, got, want)
			}
		}
		for _, n := range []int{1, 63, 4095, 4096, 4097, 100_001, 512 << 10, 512<<10 + 1, 1_100_003} {
			for _, alike := range []bool{false, true} {
				wipe(links)
				run(fmt.Sprint(n, " bytes"), alike, one(n), always, 0, 0, 0)
				if used(links) {
					t.Errorf("%q: %d bytes, alike %v: something has been in the slabs", play, n, alike)
				}
			}
			run(fmt.Sprint(n, " bytes of memory of the process"), false, one(n), never, 4*int64(n), 4*int64(n), 4*int64(n))
			run(fmt.Sprint(n, " bytes, leased on rank 1"), true, one(n), func(rank, _ int) bool { return rank == 1 }, 4*int64(n), 0, 4*int64(n))
		}
		many := func(from, to int) []int { return []int{5000, 0, 70_003 + from, 1, 600_000 + to, 9} }
		run("many pieces", true, many, always, 0, 0, 0)
		// Of two pieces that are not cut alike, the message between them is staged.
		run("two pieces", false, func(int, int) []int { return []int{5000, 5000} }, always, 4*8192, 4*8192, 4*8192)
		run("one of two pieces", true, func(int, int) []int { return []int{5000, 777} }, func(_, k int) bool { return k == 0 }, 4*777, 4*777, 4*777)
		for _, l := range links {
			require.NoError(t, l.Close())
		}
	}
}

// A lease that is too large for one memory region has several, and messages cross from
// one to the next.
func TestLargeLease(t *testing.T) {
	links := linked(t, 2, "")
	for _, l := range links {
		l.(*Link).span = 1 << 20
	}
	for round, n := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20, 5_000_001} {
		if got := direct(t, links, round, false, func(int, int) []int { return []int{n} }, func(int, int) bool { return true }); got[0]+got[1] != 0 {
			t.Errorf("%d bytes: %d are staged, want none", n, got)
		}
	}
	for _, l := range links {
		if n := regionsOf(t, l.(*Link)); n != 12 || n != l.(*Link).regions {
			t.Errorf("12 MiB take %d regions of 1 MiB, %d counted, want 12", n, l.(*Link).regions)
		}
	}
	_, _, err := links[0].(*Link).Lease(99 << 20)
	rdmatest.Contains(t, err, "99 for leases, 101 in all, and has 100")
}

// Ranks that say Alike and cut otherwise are told so, by what the device says.
func TestNotAlike(t *testing.T) {
	links := linked(t, 2, "nic=1")
	ctx := rdmatest.Within(t, 3*time.Minute)
	errs := together(links, func(rank int, l link.Link) error {
		x := &link.Exchange{Peers: []int{1 - rank}, Alike: true}
		if rank == 0 {
			x.Send = [][][]byte{{make([]byte, 100), make([]byte, 200)}}
		} else {
			x.Recv = [][][]byte{{make([]byte, 200), make([]byte, 100)}}
		}
		return l.Exchange(ctx, x)
	})
	rdmatest.Contains(t, errs[1], "rank 0 has sent a message of 100 bytes where 200 are due", "cuts its data otherwise")
}

// Pieces that both ends cut alike are divided among wires alike, wherever a wire's share
// begins, and buffers of a lease are sent and received in place on all wires.
func TestAlikeOverWires(t *testing.T) {
	links := linkedOver(t, 2, 3, "")
	ctx := rdmatest.Within(t, 3*time.Minute)
	sizes := []int{0, 100, 1 << 20, 4097, 300_001, 5}
	require.NoError(t, errors.Join(together(links, func(rank int, l link.Link) error {
		lot, _, err := l.(*Link).Lease(8 << 20)
		if err != nil {
			return err
		}
		var send, recv [][]byte
		for i, n := range sizes {
			send, recv = append(send, lot[:n:n]), append(recv, lot[4<<20:][:n:n])
			copy(send[i], rdmatest.Pattern(n, rank, 1-rank, i))
			lot = lot[n:]
		}
		if err := l.Exchange(ctx, &link.Exchange{Peers: []int{1 - rank}, Alike: true, Send: [][][]byte{send}, Recv: [][][]byte{recv}}); err != nil {
			return err
		}
		for i, n := range sizes {
			if !bytes.Equal(recv[i], rdmatest.Pattern(n, 1-rank, rank, i)) {
				t.Errorf("rank %d: piece %d of %d bytes is not what was sent", rank, i, n)
			}
		}
		if out, in := l.(*Link).Staged(); out+in > 0 {
			t.Errorf("rank %d: %d bytes sent and %d received were copied, want none", rank, out, in)
		}
		return nil
	})...))
}
