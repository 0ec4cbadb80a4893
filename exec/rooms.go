package exec

import "sync/atomic"

// Rooms is memory for the pieces of a Work. Each piece takes one slice of it.
type Rooms[E Plain] struct {
	all  []E
	size int
	next atomic.Int32
}

// RoomsOf returns memory for the pieces of one Work: n elements with undefined contents
// for each. Pieces must not call RoomsOf.
func RoomsOf[E Plain](a *Args, n int) *Rooms[E] {
	r := New[Rooms[E]](a)
	r.all, r.size = MakeDirty[E](a, max(a.Threads, 1)*n), n
	return r
}

// Take returns a slice used by no other piece. A piece calls it once.
func (r *Rooms[E]) Take() []E {
	at := (int(r.next.Add(1)) - 1) * r.size
	return r.all[at : at+r.size : at+r.size]
}
