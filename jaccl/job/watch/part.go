package watch

import "github.com/gomoe/gomoe/jaccl/link"

// maxEarly is the number of partings kept until Hear is called. Further ones are dropped.
const maxEarly = 1 << 12

// parting forwards other ranks' partings to the caller of Hear. The watch's lock guards
// it.
type parting struct {
	hear  func(from int, p link.Parting)
	early []struct { // partings received before hear was set
		from int
		p    link.Parting
	}
}

// told passes on the parting that rank from has sent. The watch's lock is held.
func (h *parting) told(from int, p link.Parting) {
	switch {
	case h.hear != nil:
		h.hear(from, p)
	case len(h.early) < maxEarly:
		h.early = append(h.early, struct {
			from int
			p    link.Parting
		}{from, p})
	}
}

// Tell implements link.Partings.
func (w *Watch) Tell(rank int, p link.Parting) {
	if rank >= 0 && rank < len(w.peers) && w.peers[rank] != nil {
		w.peers[rank].send(typePart, encodeParting(p))
	}
}

// Hear implements link.Partings.
func (w *Watch) Hear(f func(from int, p link.Parting)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear = f
	for _, e := range w.early {
		f(e.from, e.p)
	}
	w.early = nil
}
