package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

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

// chosen returns the ranks of the members that have member i's color, ordered by key
// and then by rank; nil if that color is negative.
func chosen(ranks []int, claims []claim, i int) []int {
	if claims[i].color < 0 {
		return nil
	}
	var members []int // first indices in the group, in the end ranks
	for k := range claims {
		if claims[k].color == claims[i].color {
			members = append(members, k)
		}
	}
	slices.SortFunc(members, func(a, b int) int {
		return cmp.Or(cmp.Compare(claims[a].key, claims[b].key), cmp.Compare(ranks[a], ranks[b]))
	})
	for k, m := range members {
		members[k] = ranks[m]
	}
	return members
}

// The operations' names in a Call. A method rejects a Call with another name, so that
// members calling different methods never mistake their calls for equal.
const (
	allSum        = "all_sum"
	allMax        = "all_max"
	allMin        = "all_min"
	allGather     = "all_gather"
	allGatherV    = "all_gather_v"
	reduceScatter = "reduce_scatter"
	allToAll      = "all_to_all"
	broadcast     = "broadcast"
	barrier       = "barrier"
	split         = "split"
	send          = "send"
	recv          = "recv"
	sendRecv      = "send_recv"
)

// none stands for no rank.
const none = -1

// post is a member's contribution to an operation.
type post struct {
	call       collective.Call
	dst, src   []byte
	dsts, srcs [][]byte // the parts of operations that have parts, instead of dst or src
	root       int      // of broadcast: a rank of the job
	to, from   int      // of send, recv and send_recv: ranks of the job, or none
	color, key int      // of split
	chosen     *[]int   // of split: receives the ranks of the new group
}

// claim is the part of a post that members send to each other and compare.
type claim struct {
	call         collective.Call
	bytes        int   // of src; for recv, of dst
	gives, takes []int // lengths of the parts of src and of dst, for operations that have parts; for send_recv, takes has the length of dst
	root         int
	to, from     int
	color, key   int
}

// claim sets c to the claim of p. It reuses the memory of c.
func (p *post) claim(c *claim) {
	c.call, c.bytes = p.call, len(p.src)
	c.root, c.to, c.from, c.color, c.key = p.root, p.to, p.from, p.color, p.key
	c.gives, c.takes = lengths(c.gives[:0], p.srcs), lengths(c.takes[:0], p.dsts)
	switch p.call.Op {
	case recv:
		c.bytes = len(p.dst)
	case sendRecv:
		c.takes = append(c.takes, len(p.dst))
	}
}

func lengths(to []int, of [][]byte) []int {
	for _, b := range of {
		to = append(to, len(b))
	}
	return to
}

// complete checks that a claim from another process has the right number of lengths for
// the operation in a group of size members.
func (c *claim) complete(size int) error {
	gives, takes := 0, 0
	switch c.call.Op {
	case allToAll:
		gives, takes = size, size
	case allGatherV:
		takes = size
	case sendRecv:
		takes = 1
	}
	if len(c.gives) != gives || len(c.takes) != takes {
		return fmt.Errorf("%s with %d lengths to send and %d to receive, want %d and %d", c.call.Op, len(c.gives), len(c.takes), gives, takes)
	}
	return nil
}

// volume returns the sum over all members of the bytes that the member sends or receives,
// whichever are more.
func volume(claims []claim) int {
	n := 0
	for i := range claims {
		c := &claims[i]
		out := c.bytes
		for _, b := range c.gives {
			out = more(out, b)
		}
		in := 0
		switch c.call.Op {
		case allGather:
			in = product(c.bytes, len(claims))
		default:
			for _, b := range c.takes {
				in = more(in, b)
			}
		}
		n = more(n, max(out, in))
	}
	return n
}

// more and product are + and * of lengths, saturating at the largest int.
func more(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

func product(a, b int) int {
	if b > 0 && a > math.MaxInt/b {
		return math.MaxInt
	}
	return a * b
}
