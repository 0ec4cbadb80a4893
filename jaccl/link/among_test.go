package link_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/link"
)

// thirds returns the ranks of n that have the same remainder as rank.
func thirds(rank, n int) []int {
	var out []int
	for r := rank % 3; r < n; r += 3 {
		out = append(out, r)
	}
	return out
}

// parted returns links of n ranks. Each third of the ranks has a link of its own, among
// the ranks of the third.
func parted(t testing.TB, n int) []link.Link {
	near := make([]link.Link, n)
	for first := range min(3, n) {
		ranks := thirds(first, n)
		for i, l := range jaccltest.Links(len(ranks)) {
			var err error
			near[ranks[i]], err = link.LinkAmong(l, ranks, n)
			require.NoError(t, err)
		}
	}
	return mixedOf(t, near)
}

func TestAmongLink(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link { return parted(t, n) })
}

// A part may contain all ranks.
func TestAmongWhole(t *testing.T) {
	jaccltest.LinkConformance(t, func(t *testing.T, n int) []link.Link {
		links, all := jaccltest.Links(n), make([]int, n)
		for i := range all {
			all[i] = i
		}
		for i, l := range links {
			var err error
			links[i], err = link.LinkAmong(l, all, n)
			require.NoError(t, err)
		}
		return links
	})
}

// The error names a lost peer by its number in the job, and the exchange knows what has
// been done with that peer.
func TestAmongNumbers(t *testing.T) {
	links := jaccltest.Links(3)
	ranks := []int{1, 4, 6}
	var ws []link.Link
	for _, l := range links {
		w, err := link.LinkAmong(l, ranks, 8)
		require.NoError(t, err)
		ws = append(ws, w)
	}
	var wg sync.WaitGroup
	for i, w := range ws {
		wg.Go(func() {
			x := &link.Exchange{Peers: slices.Delete(slices.Clone(ranks), i, i+1), Head: []byte{byte(i)}}
			x.Heads = func(heads [][]byte) error {
				x.Send = [][][]byte{{{1}}, {{2}}}
				x.Recv = [][][]byte{{make([]byte, 1)}, {make([]byte, 1)}}
				return nil
			}
			x.Send = [][][]byte{{{1}}, {{2}}}
			if err := w.Exchange(t.Context(), x); err != nil {
				t.Errorf("rank %d: %v", ranks[i], err)
			}
			if got := x.Moved(); got != 2+2+2 { // heads, bytes sent and received
				t.Errorf("rank %d: %d heads and bytes moved, want 6", ranks[i], got)
			}
			for k, r := range x.Peers { // rank r sends its k-th peer k+1
				theirs := slices.DeleteFunc(slices.Clone(ranks), func(p int) bool { return p == r })
				if got, want := int(x.Recv[k][0][0]), slices.Index(theirs, ranks[i])+1; got != want {
					t.Errorf("rank %d has %d of rank %d, want %d", ranks[i], got, r, want)
				}
			}
		})
	}
	wg.Wait()
	ws[2].Close()
	err := ws[0].Exchange(t.Context(), &link.Exchange{Peers: []int{6}, Recv: [][][]byte{{make([]byte, 1)}}})
	var peer *link.PeerError
	if !errors.As(err, &peer) || peer.Peer != 6 {
		t.Errorf("%v, want an error of peer 6", err)
	}
}

func TestAmong(t *testing.T) {
	jaccltest.Conformance(t, func(t *testing.T, n int) []jaccl.Communicator { return jaccltest.Connect(t, parted(t, n), time.Minute) })
}

// A site of SiteAmong gathers and dials among its own ranks, while the others do so among theirs.
func TestPart(t *testing.T) {
	const n = 5
	var wg sync.WaitGroup
	for rank, site := range jaccltest.Sites(n) {
		wg.Go(func() {
			ranks := thirds(rank, n)
			p, err := link.SiteAmong(site, ranks)
			if err != nil {
				t.Error(err)
				return
			}
			if p.Size() != len(ranks) || ranks[p.Rank()] != rank || p.Host(0) != fmt.Sprintf("host%d", ranks[0]) || !p.SameHost(0) {
				t.Errorf("rank %d: %d of %d", rank, p.Rank(), p.Size())
			}
			all, err := p.Gather(context.Background(), "key", []byte{byte(rank)})
			var got []int
			for _, b := range all {
				got = append(got, int(b[0]))
			}
			if err != nil || !slices.Equal(got, ranks) {
				t.Errorf("rank %d gathers %v, %v, want %v", rank, got, err, ranks)
			}
			conns, err := p.Dial(context.Background(), "test")
			if err != nil || len(conns) != len(ranks) || conns[p.Rank()] != nil {
				t.Errorf("rank %d: %d connections, %v", rank, len(conns), err)
				return
			}
			for _, c := range conns {
				if c != nil {
					c.Write([]byte{byte(rank)})
				}
			}
			for i, c := range conns {
				var b [1]byte
				if c == nil {
					continue
				}
				if _, err := c.Read(b[:]); err != nil || int(b[0]) != ranks[i] {
					t.Errorf("rank %d reads %d from %d, %v", rank, b[0], ranks[i], err)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
}

func TestPartRefuses(t *testing.T) {
	sites, links := jaccltest.Sites(4), jaccltest.Links(2)
	for want, ranks := range map[string][]int{
		"want ranks of the job, ascending": {0, 4}, "part [1 0]": {1, 0}, "part [0 0]": {0, 0}, "want it to be in its part": {1, 2}, "part [-1 0]": {-1, 0},
	} {
		if _, err := link.SiteAmong(sites[0], ranks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("part %v: %v, want %q", ranks, err, want)
		}
	}
	if _, err := link.LinkAmong(links[0], []int{0, 1, 2}, 4); err == nil || !strings.Contains(err.Error(), "a link of 2 ranks for [0 1 2]") {
		t.Errorf("%v", err)
	}
	w, err := link.LinkAmong(links[0], []int{1, 3}, 4)
	require.NoError(t, err)
	if w.Rank() != 1 || w.Size() != 4 {
		t.Errorf("rank %d of %d, want 1 of 4", w.Rank(), w.Size())
	}
	x := &link.Exchange{Peers: []int{2}}
	if err := w.Exchange(t.Context(), x); err == nil || !strings.Contains(err.Error(), "reaches ranks [1 3], not rank 2") {
		t.Errorf("%v", err)
	}
}
