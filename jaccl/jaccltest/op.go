package jaccltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// names are the operations that a trial runs. In a send one member calls Send, another calls
// Recv, and the rest call nothing.
var names = [...]string{"all_sum", "all_gather", "reduce_scatter", "all_to_all", "barrier",
	"broadcast", "all_max", "all_gather_v", "send_recv", "all_min", "send"}

// op is an operation with inputs and results that all ranks can compute.
type op struct {
	name    string
	d       graph.DType
	count   int // elements of a part
	seed    int
	inPlace bool // reductions to all members have dst = src
	skew    int  // misalignment of buffers in bytes
	exact   bool // floats are small integers: sums do not depend on their order
}

func (o op) call(seq int) collective.Call {
	return collective.Call{Op: o.name, Seq: seq, DType: o.d, Bytes: int64(o.count * o.d.Size()), Pos: graph.Pos{File: "model.go", Line: o.seed}}
}

// toAll reports whether the operation reduces elements and gives all results to all members.
func (o op) toAll() bool { return o.name == "all_sum" || o.name == "all_max" || o.name == "all_min" }

// reduces reports whether the operation reduces elements, rather than only moves them.
func (o op) reduces() bool { return o.toAll() || o.name == "reduce_scatter" }

// part returns the number of elements that a member sends another one in an operation with
// parts of different lengths: 0 for some pairs.
func (o op) part(from, to int) int { return o.count * ((3*from + 5*to + o.seed) % 4) / 2 }

// root returns the member that a broadcast starts from, and the sender of a send.
func (o op) root(size int) int { return o.seed % size }

// far returns the receiver of a send.
func (o op) far(size int) int { return (o.root(size) + 1 + o.seed/size%max(size-1, 1)) % size }

// shift returns the distance of a send_recv in members: 1 to size, where size means that
// every member sends to itself.
func (o op) shift(size int) int { return o.seed/2%size + 1 }

// values returns n elements contributed by member i.
func (o op) values(n, seed, i int) []byte {
	if o.exact && o.d.IsFloat() {
		return integers(o.d, n, seed, i)
	}
	return values(o.d, n, seed, i)
}

// src returns the parts contributed by member i of size members.
func (o op) src(i, size int) [][]byte {
	switch o.name {
	case "all_sum", "all_max", "all_min", "all_gather", "broadcast":
		return [][]byte{o.values(o.count, o.seed, i)}
	case "all_gather_v":
		return [][]byte{o.values(o.part(i, 0), o.seed, i)}
	case "reduce_scatter":
		return [][]byte{o.values(o.count*size, o.seed, i)}
	case "all_to_all":
		parts := make([][]byte, size)
		for k := range parts {
			parts[k] = o.values(o.part(i, k), o.seed, i*size+k)
		}
		return parts
	case "send_recv":
		return [][]byte{o.values(o.part(i, (i+o.shift(size))%size), o.seed, i)}
	case "send":
		if i == o.root(size) {
			return [][]byte{o.values(o.count, o.seed, i)}
		}
	}
	return nil
}

// trial is an operation with the inputs and the results of every member, by
// member and part. It is computed once and only read by the ranks.
type trial struct {
	op
	in, out [][][]byte
}

// trials computes the inputs and results of the members of a group of the given size, by
// the definitions of collective.Group and jaccl.Group.
func trials(size int, ops []op) []trial {
	ts := make([]trial, len(ops))
	for n, o := range ops {
		t := trial{op: o, in: make([][][]byte, size), out: make([][][]byte, size)}
		for i := range size {
			t.in[i] = o.src(i, size)
		}
		var sum, gathered []byte
		switch {
		case o.reduces():
			sum = total(o.name, o.d, t.in)
		case o.name == "all_gather":
			for _, src := range t.in {
				gathered = append(gathered, src[0]...)
			}
		}
		for i := range size {
			switch o.name {
			case "all_sum", "all_max", "all_min":
				t.out[i] = [][]byte{sum}
			case "reduce_scatter":
				part := o.count * o.d.Size()
				t.out[i] = [][]byte{sum[i*part : (i+1)*part]}
			case "all_gather":
				t.out[i] = [][]byte{gathered}
			case "all_gather_v":
				for _, src := range t.in {
					t.out[i] = append(t.out[i], src[0])
				}
			case "all_to_all":
				for _, src := range t.in {
					t.out[i] = append(t.out[i], src[i])
				}
			case "broadcast":
				t.out[i] = t.in[o.root(size)]
			case "send_recv":
				t.out[i] = t.in[(i+size*2-o.shift(size))%size]
			case "send":
				if i == o.far(size) && size > 1 {
					t.out[i] = t.in[o.root(size)]
				}
			}
		}
		ts[n] = t
	}
	return ts
}

const (
	margin = 16   // bytes before and after a buffer
	canary = 0xa5 // fills memory that must not be written
)

// buffer returns n bytes within a larger piece of memory full of canaries.
func buffer(n, skew int) (b, around []byte) { return (*arena)(nil).buffer(n, skew) }

// buffer returns n bytes within a larger piece of the arena full of canaries.
func (a *arena) buffer(n, skew int) (b, around []byte) {
	around = a.take(n + skew + 2*margin)
	for i := range around {
		around[i] = canary
	}
	return around[margin+skew:][:n:n], around
}

func (a *arena) buffers(like [][]byte, skew int) (b, around [][]byte) {
	for _, l := range like {
		x, y := a.buffer(len(l), skew)
		b, around = append(b, x), append(around, y)
	}
	return b, around
}

// run calls the operation as this member and compares the result with the expected one, bit
// for bit.
func (o trial) run(ctx context.Context, g jaccl.Group, a *arena, seq int) error {
	in, want := o.in[g.Rank()], o.out[g.Rank()]
	src, _ := a.buffers(in, o.skew)
	for i := range src {
		copy(src[i], in[i])
	}
	dst, around := a.buffers(want, o.skew)
	inPlace := o.inPlace && o.toAll() || o.name == "broadcast"
	if inPlace {
		dst = src
	}
	var err error
	switch c := o.call(seq); o.name {
	case "all_sum":
		err = g.AllSum(ctx, c, dst[0], src[0])
	case "all_max":
		err = g.AllMax(ctx, c, dst[0], src[0])
	case "all_min":
		err = g.AllMin(ctx, c, dst[0], src[0])
	case "all_gather":
		err = g.AllGather(ctx, c, dst[0], src[0])
	case "all_gather_v":
		err = g.AllGatherV(ctx, c, dst, src[0])
	case "reduce_scatter":
		err = g.ReduceScatter(ctx, c, dst[0], src[0])
	case "all_to_all":
		err = g.AllToAll(ctx, c, dst, src)
	case "broadcast":
		err = g.Broadcast(ctx, c, o.root(g.Size()), src[0])
	case "barrier":
		err = g.Barrier(ctx, c)
	case "send_recv":
		n, s := g.Size(), o.shift(g.Size())
		err = g.SendRecv(ctx, c, (g.Rank()+s)%n, src[0], (g.Rank()+2*n-s)%n, dst[0])
	case "send":
		switch from, to := o.root(g.Size()), o.far(g.Size()); {
		case from == to: // alone
		case g.Rank() == from:
			err = g.Send(ctx, c, to, src[0])
		case g.Rank() == to:
			c.Op = "recv"
			err = g.Recv(ctx, c, from, dst[0])
		}
	}
	if err != nil {
		return err
	}
	for i := range dst {
		if k := differ(dst[i], want[i]); k >= 0 {
			return fmt.Errorf("%s, member %d of %d, part %d, skew %d, in place %v: byte %d of %d is %#x, want %#x",
				o.call(seq), g.Rank(), g.Size(), i, o.skew, inPlace, k, len(want[i]), dst[i][k], want[i][k])
		}
		if n := len(dst[i]); !inPlace && bytes.Count(around[i][:margin+o.skew], []byte{canary})+bytes.Count(around[i][margin+o.skew+n:], []byte{canary}) != 2*margin+o.skew {
			return fmt.Errorf("%s, member %d of %d, part %d: bytes outside of dst were written", o.call(seq), g.Rank(), g.Size(), i)
		}
	}
	for i := range src {
		if !inPlace && !bytes.Equal(src[i], in[i]) {
			return fmt.Errorf("%s, member %d of %d, part %d: src was written", o.call(seq), g.Rank(), g.Size(), i)
		}
		for k := range src[i] { // the buffer is the caller's again
			src[i][k] ^= 0xff
		}
	}
	return nil
}

// differ returns the first index at which a and b, which have the same length, differ; -1 if
// they are equal.
func differ(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// arena is memory that the communicator lends, for the buffers of one operation after
// another. A nil arena stands for the process's own memory.
type arena struct {
	b, rest []byte // all of the memory, and the part not yet used by the trial in progress
	release func() error
}

// newArena returns memory that is enough for each of a member's trials; nil if the
// communicator lends none.
func newArena(c jaccl.Communicator, member int, ts []trial) (*arena, error) {
	m, ok := c.(collective.Leaser)
	if !ok {
		return nil, nil
	}
	most := 0
	for _, t := range ts {
		n := 0
		for _, part := range append(t.in[member:member+1:member+1], t.out[member]) {
			for _, b := range part {
				n += len(b) + t.skew + 2*margin + 64
			}
		}
		most = max(most, n)
	}
	b, release, err := m.Lease(most)
	if errors.Is(err, jaccl.ErrUnsupported) {
		return nil, nil
	}
	return &arena{b: b, release: release}, err
}

// close releases the memory.
func (a *arena) close() error {
	if a == nil {
		return nil
	}
	return a.release()
}

// next begins a trial, returning the arena for it. It returns nil for some members of
// some trials, so that operations also have members with and without buffers in lent
// memory.
func (a *arena) next(o op, member int) *arena {
	if a == nil || o.seed%4 == 3 && (member+o.seed)%3 != 0 {
		return nil
	}
	a.rest = a.b
	return a
}

// take returns n bytes. In an arena they start at a cache line.
func (a *arena) take(n int) []byte {
	if a == nil {
		return make([]byte, n)
	}
	b := a.rest[:n:n]
	a.rest = a.rest[min((n+63)/64*64, len(a.rest)):]
	return b
}

// sizes returns the job sizes of a suite: 1 to 8 ranks, and only some of these under
// -short, which the race detector uses.
func sizes() []int {
	if testing.Short() {
		return []int{1, 2, 3, 5}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8}
}
