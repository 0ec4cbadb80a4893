package world

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/jaccl/link"
	"github.com/gomoe/gomoe/jaccl/link/tcp"
)

// automatic returns a link using shared memory within machines and TCP between them. All
// ranks choose the same kinds of link. If only some ranks share a machine, all ranks take
// part in making both links, because the site's Gather and Dial are collective.
func automatic(ctx context.Context, site link.Site) (link.Link, error) {
	near := neighbours(site)
	counts, err := site.Gather(ctx, "gomoe: ranks per machine", []byte(fmt.Sprint(len(near))))
	if err != nil {
		return nil, err
	}
	most := "1"
	for _, c := range counts {
		if string(c) != "1" {
			most = string(c)
		}
	}
	switch {
	case len(near) == site.Size():
		return shared(ctx, site)
	case most == "1":
		return tcp.Connect(ctx, site)
	}
	// Shared memory comes last: if one machine has none, its ranks return, and the others
	// do not wait for them.
	between, err := tcp.Connect(ctx, site)
	if err != nil {
		return nil, err
	}
	within, err := sharedAmong(ctx, site, near)
	if err != nil {
		return nil, errors.Join(err, between.Close())
	}
	links := make([]link.Link, site.Size())
	for r := range links {
		switch {
		case r == site.Rank():
		case slices.Contains(near, r):
			links[r] = within
		default:
			links[r] = between
		}
	}
	if len(near) == 1 { // this rank is alone on its machine, while others share one
		return between, within.Close()
	}
	m, err := link.Mix(links...)
	if err != nil {
		return nil, errors.Join(err, within.Close(), between.Close())
	}
	return m, nil
}

// sharedAmong returns a link of the job using shared memory between the near ranks.
func sharedAmong(ctx context.Context, site link.Site, near []int) (link.Link, error) {
	nearSite, err := link.SiteAmong(site, near)
	if err != nil {
		return nil, err
	}
	l, err := shared(ctx, nearSite)
	if err != nil {
		return nil, err
	}
	within, err := link.LinkAmong(l, near, site.Size())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return within, nil
}

// neighbours returns the ranks on this rank's machine, including this rank.
func neighbours(site link.Site) []int {
	var near []int
	for r := range site.Size() {
		if r == site.Rank() || site.SameHost(r) {
			near = append(near, r)
		}
	}
	return near
}
