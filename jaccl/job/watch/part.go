package watch

import "github.com/gomoe/gomoe/jaccl/link"

// maxEarly is how many partings may come before somebody hears them.
const maxEarly = 1 << 12

// parting is what becomes of the groups that others say that they have closed. The
// watch's lock guards it.
type parting struct {
	hear  func(from int, p link.Parting)
	early []struct { // what came before hear
		from int
		p    link.Parting
	}
}

// told hands on what a rank says. The watch's lock is held.
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
