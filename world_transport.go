package gomoe

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/shm"
	"github.com/gomoe/gomoe/jaccl/tcp"
)

// link connects the ranks of the site with the transport that was asked for. What
// it decides by itself, it decides alike on all ranks.
func (s *state) link(ctx context.Context, site jaccl.Site) (jaccl.Link, error) {
	switch t := s.info.Transport; t {
	case "auto":
		if neighbours(site) == site.Size() {
			return shm.Connect(ctx, site, shm.Options{})
		}
		return tcp.Connect(ctx, site)
	case "tcp":
		return tcp.Connect(ctx, site)
	case "shm":
		return shm.Connect(ctx, site, shm.Options{})
	default:
		return nil, fmt.Errorf("transport %s is not in this version; want auto, tcp or shm", t)
	}
}

// neighbours counts the ranks on this rank's machine, itself among them.
func neighbours(site jaccl.Site) int {
	n := 0
	for r := range site.Size() {
		if site.SameHost(r) {
			n++
		}
	}
	return n
}
