package engine

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/collective"
)

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
