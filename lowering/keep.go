package lowering

import "sync/atomic"

// kept is something that a rank's kernels use again and again.
type kept struct {
	what any
	used bool // since Scratch.Reset
}

// Keep returns a zero W that is the kernel's until it returns, such as the Work that
// it shares: of a.Scratch, which makes one for all kernels of the rank, or a new one
// where that is nil. Pieces of Share do not call it.
func Keep[W any](a *Args) *W {
	w := KeepDirty[W](a)
	var zero W
	*w = zero
	return w
}

// KeepDirty is Keep with what another kernel has left in the place of zeros, such as
// slices to append to.
func KeepDirty[W any](a *Args) *W {
	s := a.Scratch
	if s == nil {
		return new(W)
	}
	for i := range s.kept {
		if w, ok := s.kept[i].what.(*W); ok && !s.kept[i].used {
			s.kept[i].used = true
			return w
		}
	}
	w := new(W)
	s.kept = append(s.kept, kept{w, true})
	return w
}

// Share is Args.Share of w, for the pieces of which the rank keeps memory.
func Share[W any, P interface {
	*W
	Work
}](a *Args, n, grain int, w W) {
	k := Keep[W](a)
	*k = w
	a.Share(n, grain, P(k))
}

// Rooms is memory for the pieces of a Work, which each take a part of it.
type Rooms[E Plain] struct {
	all  []E
	size int
	next atomic.Int32
}

// RoomsOf returns memory of n elements, which are anything, for each piece of one
// Work. Pieces do not call it.
func RoomsOf[E Plain](a *Args, n int) *Rooms[E] {
	r := Keep[Rooms[E]](a)
	r.all, r.size = MakeDirty[E](a, max(a.Threads, 1)*n), n
	return r
}

// Take returns a part that nobody else has. A piece takes one.
func (r *Rooms[E]) Take() []E {
	at := (int(r.next.Add(1)) - 1) * r.size
	return r.all[at : at+r.size : at+r.size]
}
