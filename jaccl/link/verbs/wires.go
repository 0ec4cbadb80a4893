package verbs

import (
	"github.com/gomoe/gomoe/jaccl/rdma"
)

// part is one wire's share of the data of one peer in one direction: pieces of the
// caller's buffers. Its memory is reused in the next exchange.
type part [][]byte

// over adds to lane l the part of the data in buffers that goes over the wire of endpoint i.
// Data of less than rdma.MultiWire bytes goes over the first wire; more data is divided among
// the wires in whole frames. Both ends know the number of bytes, so that they divide the data
// alike.
func (s *exchange) over(l *rdma.Lane, buffers [][]byte, i int, p *part) {
	w, wires := i/len(s.x.Peers), len(s.eps)/len(s.x.Peers)
	n := 0
	for _, b := range buffers {
		n += len(b)
	}
	if wires == 1 || n < rdma.MultiWire {
		if w == 0 {
			s.add(l, buffers, n)
		}
		return
	}
	begin, end := rdma.Share((n+rdma.Frame-1)/rdma.Frame, w, wires)
	begin, end = begin*rdma.Frame, min(n, end*rdma.Frame)
	*p = (*p)[:0]
	at := 0
	for _, b := range buffers {
		from, to := max(begin-at, 0), min(end-at, len(b))
		if from < to {
			*p = append(*p, b[from:to])
		}
		at += len(b)
	}
	s.add(l, *p, end-begin)
}

// add adds n bytes of data to a lane.
func (s *exchange) add(l *rdma.Lane, buffers [][]byte, n int) {
	if s.l.settings.Whole {
		l.Add(rdma.Data, buffers, rdma.ClassOf(n))
	} else {
		l.AddData(buffers, s.x.Alike)
	}
}
