package engine

import (
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/link"
)

// SetSizes makes a communicator over a link send more than small bytes in pieces, of
// which stage bytes are on their way at a time.
func SetSizes(c jaccl.Communicator, small, stage int) { c.(*engine).sizes = sizes{small, stage} }

// Kept reports whether a group over a link refers to buffers between operations.
func Kept(group jaccl.Group) bool {
	g := group.(*linkGroup)
	for _, x := range [...]*link.Exchange{&g.x, &g.pair} {
		for _, bufs := range append(append([][][]byte{}, x.Send...), x.Recv...) {
			for _, b := range bufs[:cap(bufs)] {
				if b != nil {
					return true
				}
			}
		}
	}
	for _, b := range g.srcs {
		if b != nil {
			return true
		}
	}
	for _, p := range g.posts {
		if p.src != nil || p.dst != nil || len(p.dsts) > 0 || len(p.srcs) > 0 {
			return true
		}
	}
	return false
}
