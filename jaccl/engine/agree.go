package engine

import (
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/jaccl"
)

// disagreement compares the claims of all members of a group and returns a failure naming
// both sides of the first misfit, or nil. ranks are the members' ranks. Every member
// computes the same result. Source positions are not compared: the same source may have
// another path on another machine.
func disagreement(ranks []int, claims []claim) *failure {
	if pairwise(claims[0].call.Op) && len(claims) == 2 {
		return quarrel(ranks, claims, 0, 1)
	}
	first := &claims[0]
	for i := range claims {
		c := &claims[i]
		if pairwise(first.call.Op) && pairwise(c.call.Op) {
			continue // two pairwise calls: the disagreement is with a member calling another operation
		}
		if !sameCall(c.call, first.call) {
			return mismatch(ranks, i, 0, fmt.Sprintf("rank %d calls %s where rank %d calls %s",
				ranks[i], c.call, ranks[0], first.call))
		}
	}
	switch first.call.Op {
	case allGatherV:
		for i := range claims {
			for k := range claims {
				if f := part(ranks, claims, i, k, claims[i].bytes); f != nil {
					return f
				}
			}
		}
		return nil
	case allToAll:
		for i := range claims {
			for k := range claims {
				if f := part(ranks, claims, i, k, claims[i].gives[k]); f != nil {
					return f
				}
			}
		}
		return nil
	}
	for i := range claims {
		if c := &claims[i]; c.bytes != first.bytes {
			return mismatch(ranks, i, 0, fmt.Sprintf("rank %d calls %s with %d bytes of src where rank %d has %d",
				ranks[i], c.call, c.bytes, ranks[0], first.bytes))
		}
	}
	for i := range claims {
		if c := &claims[i]; c.root != first.root {
			return mismatch(ranks, i, 0, fmt.Sprintf("rank %d calls %s with rank %d as root where rank %d has rank %d",
				ranks[i], c.call, c.root, ranks[0], first.root))
		}
	}
	return nil
}

// part compares the bytes sent by member i to member k with the bytes that member k
// expects.
func part(ranks []int, claims []claim, i, k, bytes int) *failure {
	want := claims[k].takes[i]
	if bytes == want {
		return nil
	}
	return mismatch(ranks, i, k, fmt.Sprintf("rank %d sends %d bytes to rank %d, which expects %d from it, in %s",
		ranks[i], bytes, ranks[k], want, claims[i].call))
}

// pairwise reports whether op concerns two members only, whatever the others do.
func pairwise(op string) bool { return op == send || op == recv || op == sendRecv }

// quarrel is disagreement for members i and k, i < k, if at least one of them has called
// a pairwise operation.
func quarrel(ranks []int, claims []claim, i, k int) *failure {
	a, b := &claims[i], &claims[k]
	same := a.call
	switch b.call.Op { // same becomes the operation that a has to call
	case send:
		same.Op = recv
	case recv:
		same.Op = send
	default:
		same.Op = b.call.Op
	}
	if a.call.Op != same.Op || a.call.Seq != b.call.Seq || a.call.DType != b.call.DType || a.call.Bytes != b.call.Bytes {
		return mismatch(ranks, k, i, fmt.Sprintf("rank %d calls %s where rank %d calls %s", ranks[k], b.call, ranks[i], a.call))
	}
	if f := passed(ranks, a, b, i, k); f != nil {
		return f
	}
	return passed(ranks, b, a, k, i)
}

// passed compares the bytes sent by member i, with claim a, to member k, with claim b,
// with the bytes that member k expects from member i.
func passed(ranks []int, a, b *claim, i, k int) *failure {
	if (a.to == ranks[k]) != (b.from == ranks[i]) {
		return mismatch(ranks, i, k, fmt.Sprintf("rank %d sends to %s in %s where rank %d receives from %s in %s",
			ranks[i], someone(a.to), a.call, ranks[k], someone(b.from), b.call))
	}
	if a.to != ranks[k] {
		return nil
	}
	want := b.bytes
	if b.call.Op == sendRecv {
		want = b.takes[0]
	}
	if a.bytes == want {
		return nil
	}
	return mismatch(ranks, i, k, fmt.Sprintf("rank %d sends %d bytes to rank %d, which expects %d from it, in %s",
		ranks[i], a.bytes, ranks[k], want, a.call))
}

func someone(rank int) string {
	if rank == none {
		return "nobody"
	}
	return fmt.Sprintf("rank %d", rank)
}

func sameCall(a, b collective.Call) bool {
	return a.Op == b.Op && a.Seq == b.Seq && a.DType == b.DType && a.Bytes == b.Bytes
}

func mismatch(ranks []int, i, k int, text string) *failure {
	blame := []int{ranks[i]}
	if k != i {
		blame = append(blame, ranks[k])
	}
	return &failure{blame, text, jaccl.ErrMismatch}
}
