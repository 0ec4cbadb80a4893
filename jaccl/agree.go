package jaccl

import (
	"fmt"

	"github.com/gomoe/gomoe/lowering"
)

// disagreement compares the posts of all members and returns what does not fit
// together, naming both sides, or nil. Positions are not compared: the same
// source may have another path on another machine.
func (r *rendezvous) disagreement() *failure {
	first := r.posts[0]
	for i, p := range r.posts[1:] {
		i++
		if !sameCall(p.call, first.call) {
			return r.mismatch(i, 0, fmt.Sprintf("rank %d calls %s where rank %d calls %s",
				r.ranks[i], p.call, r.ranks[0], first.call))
		}
	}
	for i, p := range r.posts[1:] {
		i++
		if len(p.src) != len(first.src) {
			return r.mismatch(i, 0, fmt.Sprintf("rank %d calls %s with %d bytes of src where rank %d has %d",
				r.ranks[i], p.call, len(p.src), r.ranks[0], len(first.src)))
		}
	}
	if first.call.Op != allToAll {
		return nil
	}
	for i, from := range r.posts {
		for k, to := range r.posts {
			if len(from.srcs[k]) != len(to.dsts[i]) {
				return r.mismatch(i, k, fmt.Sprintf("rank %d sends %d bytes to rank %d, which expects %d from it, in %s",
					r.ranks[i], len(from.srcs[k]), r.ranks[k], len(to.dsts[i]), from.call))
			}
		}
	}
	return nil
}

func sameCall(a, b lowering.Call) bool {
	return a.Op == b.Op && a.Seq == b.Seq && a.DType == b.DType && a.Bytes == b.Bytes
}

func (r *rendezvous) mismatch(i, k int, text string) *failure {
	blame := []int{r.ranks[i]}
	if k != i {
		blame = append(blame, r.ranks[k])
	}
	return &failure{blame, text, ErrMismatch}
}
