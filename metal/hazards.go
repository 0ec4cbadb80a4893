package metal

import "github.com/gomoe/gomoe/metal/mtl"

// hazards are the spans of memory used by dispatches since the last barrier of a concurrent
// encoder, where dispatches run concurrently and in any order.
type hazards struct{ reads, writes []span }

// span is bytes [from, to) of a buffer.
type span struct {
	buffer   *mtl.Buffer
	from, to int
}

func overlap(all []span, s span) bool {
	for _, o := range all {
		if o.buffer == s.buffer && o.from < s.to && s.from < o.to {
			return true
		}
	}
	return false
}

// meets reports whether a dispatch with these spans must see the writes of earlier ones, or
// overwrites memory used by them.
func (h *hazards) meets(reads, writes []span) bool {
	for _, s := range reads {
		if overlap(h.writes, s) {
			return true
		}
	}
	for _, s := range writes {
		if overlap(h.writes, s) || overlap(h.reads, s) {
			return true
		}
	}
	return false
}

// add adds the spans of a dispatch.
func (h *hazards) add(reads, writes []span) {
	h.reads, h.writes = append(h.reads, reads...), append(h.writes, writes...)
}

// clear forgets all dispatches: a barrier follows them.
func (h *hazards) clear() { h.reads, h.writes = h.reads[:0], h.writes[:0] }
