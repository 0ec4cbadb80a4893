package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/gomoe/gomoe/jaccl"
)

// SiteAmong returns a site of some ranks of a job, for setting up a transport among these
// ranks alone. ranks are ascending and contain this rank; in the new site they are
// numbered 0, 1 and so on. Gather and Dial of the new site call the methods of the whole
// site. Therefore every rank of the job has to call them, in the same order, each on the
// site of its own ranks. Data gathered by other ranks is dropped, and connections to them
// are closed.
func SiteAmong(site Site, ranks []int) (Site, error) {
	if err := checkRanks(ranks, site.Rank(), site.Size()); err != nil {
		return nil, err
	}
	return &siteAmong{site, slices.Clone(ranks)}, nil
}

// checkRanks returns an error unless ranks are ascending ranks of a job of size ranks and
// contain rank.
func checkRanks(ranks []int, rank, size int) error {
	for i, r := range ranks {
		if r < 0 || r >= size || i > 0 && r <= ranks[i-1] {
			return fmt.Errorf("jaccl: part %v of %d ranks, want ranks of the job, ascending", ranks, size)
		}
	}
	if !slices.Contains(ranks, rank) {
		return fmt.Errorf("jaccl: part %v of a job, as rank %d has it, want it to be in its part", ranks, rank)
	}
	return nil
}

// siteAmong implements Site.
type siteAmong struct {
	site  Site
	ranks []int
}

func (p *siteAmong) Rank() int              { return slices.Index(p.ranks, p.site.Rank()) }
func (p *siteAmong) Size() int              { return len(p.ranks) }
func (p *siteAmong) Host(rank int) string   { return p.site.Host(p.ranks[rank]) }
func (p *siteAmong) SameHost(rank int) bool { return p.site.SameHost(p.ranks[rank]) }

func (p *siteAmong) Gather(ctx context.Context, key string, mine []byte) ([][]byte, error) {
	all, err := p.site.Gather(ctx, key, mine)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(p.ranks))
	for i, r := range p.ranks {
		out[i] = all[r]
	}
	return out, nil
}

func (p *siteAmong) Dial(ctx context.Context, purpose string) ([]net.Conn, error) {
	all, err := p.site.Dial(ctx, purpose)
	if err != nil {
		return nil, err
	}
	out := make([]net.Conn, len(p.ranks))
	for r, c := range all {
		if i := slices.Index(p.ranks, r); i >= 0 {
			out[i] = c
		} else if c != nil {
			c.Close()
		}
	}
	return out, nil
}

// LinkAmong returns l, a link among some ranks of a job, as a link of the whole job of size
// ranks, which Mix accepts. Rank i of l is rank ranks[i] of the job; ranks are ascending. The
// new link reaches these ranks only, by their numbers in the job. It owns l.
func LinkAmong(l Link, ranks []int, size int) (Link, error) {
	if l.Size() != len(ranks) {
		return nil, fmt.Errorf("jaccl: within: a link of %d ranks for %v, want as many", l.Size(), ranks)
	}
	if err := checkRanks(ranks, ranks[l.Rank()], size); err != nil {
		return nil, err
	}
	w := &linkAmong{Link: l, ranks: slices.Clone(ranks), size: size}
	w.listen = w.heads
	return w, nil
}

// linkAmong implements Lender; Lease returns ErrUnsupported if its link is not a Lender.
type linkAmong struct {
	Link
	ranks  []int
	size   int
	x      Exchange             // the exchange in progress, with the link's numbers of ranks
	whole  *Exchange            // the exchange in progress as the caller has it; else nil
	listen func([][]byte) error // the method value of heads, made once
}

func (w *linkAmong) Rank() int { return w.ranks[w.Link.Rank()] }
func (w *linkAmong) Size() int { return w.size }

// Lease implements Lender.
func (w *linkAmong) Lease(n int) ([]byte, func() error, error) {
	l, ok := w.Link.(Lender)
	if !ok {
		return nil, nil, fmt.Errorf("jaccl: lease: %s link: %w", w.Transport(), jaccl.ErrUnsupported)
	}
	return l.Lease(n)
}

// Exchange implements Link.
func (w *linkAmong) Exchange(ctx context.Context, x *Exchange) error {
	x.Begin()
	w.whole = x
	defer func() { w.whole = nil }()
	p := &w.x
	p.Peers, p.index, p.whole = p.Peers[:0], p.index[:0], x
	for i, r := range x.Peers {
		k := slices.Index(w.ranks, r)
		if k < 0 {
			return fmt.Errorf("jaccl: %s link of rank %d reaches ranks %v, not rank %d", w.Transport(), w.Rank(), w.ranks, r)
		}
		p.Peers, p.index = append(p.Peers, k), append(p.index, i)
	}
	p.Head, p.Heads, p.Send, p.Recv, p.Alike = x.Head, nil, x.Send, x.Recv, x.Alike
	if x.Heads != nil {
		p.Heads = w.listen
	}
	err := w.Link.Exchange(ctx, p)
	p.Head, p.Heads, p.Send, p.Recv, p.whole = nil, nil, nil, nil, nil
	var peer *PeerError
	if errors.As(err, &peer) && peer.Peer >= 0 && peer.Peer < len(w.ranks) {
		return &PeerError{Peer: w.ranks[peer.Peer], Err: err}
	}
	return err
}

// heads is the Heads of the link's exchange. It calls the caller's Heads and then copies
// Recv, which the caller's Heads may have set.
func (w *linkAmong) heads(heads [][]byte) error {
	err := w.whole.Heads(heads)
	w.x.Recv = w.whole.Recv
	return err
}
