package link

import (
	"fmt"
	"sync/atomic"
)

// MaxHead is the largest size of a head in bytes. It limits the memory that a peer can
// make a link allocate before this rank has agreed to the length.
const MaxHead = 16 << 10

// Exchange is the data that one rank sends and receives in one step of a collective.
type Exchange struct {
	// Peers are the other ranks of the job taking part, ascending and each once.
	Peers []int
	// Head, if it is not nil, is sent to every peer before the data. Every peer must then
	// send a head as well. A head has at most MaxHead bytes; the heads of different ranks
	// may have different lengths.
	Head []byte
	// Heads is called once, by the goroutine that called Exchange, with the heads of all
	// peers in the order of Peers, before any of the peers' data is written anywhere. It
	// may set Recv. The heads are valid until it returns. If it returns an error, the
	// exchange ends with that error, unwrapped. Heads is nil if Head is nil.
	Heads func(heads [][]byte) error
	// Send and Recv are, for each peer, the buffers to send and to fill, one after
	// another. Both sides of a pair state the same number of bytes in total; the bytes
	// may be cut into different buffers. A nil Send or Recv, or a nil list of a peer,
	// means no bytes.
	Send, Recv [][][]byte
	// Alike declares that the two sides of every pair cut the bytes into buffers of the
	// same lengths, apart from empty buffers, so that a link may carry each buffer
	// separately. Both sides of a pair set it, or neither.
	Alike bool
	// Left reports whether a rank of the job has left: it has closed its link or is about
	// to. Left may be nil. Links call Gone, not Left.
	Left func(rank int) bool

	progress []progress
	moved    atomic.Int64 // heads and bytes of all peers, in all uses of this Exchange

	whole *Exchange // the exchange containing this one, for Mix and LinkAmong; else nil
	index []int     // for each of Peers, its index in whole.Peers
}

// progress is the progress of an exchange with one peer.
type progress struct {
	head           atomic.Bool // the peer's head has arrived
	sent, received atomic.Int64
}

// Begin resets the progress. A Link calls it first in Exchange.
func (x *Exchange) Begin() {
	if cap(x.progress) < len(x.Peers) {
		x.progress = make([]progress, len(x.Peers))
	}
	x.progress = x.progress[:len(x.Peers)]
	for i := range x.progress {
		p := &x.progress[i]
		p.head.Store(false)
		p.sent.Store(0)
		p.received.Store(0)
	}
}

// Moved returns the number of heads received plus bytes sent and received, in all uses
// of x so far. It may be called at any time.
func (x *Exchange) Moved() int64 { return x.moved.Load() }

// Came records that the head of Peers[i] has arrived. Links call it, from any goroutine.
func (x *Exchange) Came(i int) {
	if x.whole != nil {
		x.whole.Came(x.index[i])
	}
	x.progress[i].head.Store(true)
	x.moved.Add(1)
}

// Sent records that n more bytes of data have been sent to Peers[i]. Links call it, from
// any goroutine.
func (x *Exchange) Sent(i, n int) {
	if x.whole != nil {
		x.whole.Sent(x.index[i], n)
	}
	x.progress[i].sent.Add(int64(n))
	x.moved.Add(int64(n))
}

// Received records that n more bytes of data have arrived from Peers[i]. Links call it,
// from any goroutine.
func (x *Exchange) Received(i, n int) {
	if x.whole != nil {
		x.whole.Received(x.index[i], n)
	}
	x.progress[i].received.Add(int64(n))
	x.moved.Add(int64(n))
}

// Gone reports whether Peers[i] has left. A link without its own detection of closed
// links calls Gone for the peers for which it waits, but only when nothing has moved for
// a while: data that a peer sent before leaving may still be in flight. Gone may be
// called at any time.
func (x *Exchange) Gone(i int) bool {
	if x.whole != nil {
		return x.whole.Gone(x.index[i])
	}
	return x.Left != nil && x.Left(x.Peers[i])
}

// account is the progress of an exchange with one peer, in bytes of data.
type account struct {
	Head                           bool // the peer's head has arrived
	sent, toSend, received, toRecv int64
}

func (a account) String() string {
	return fmt.Sprintf("%d of %d bytes sent to it, %d of %d received", a.sent, a.toSend, a.received, a.toRecv)
}

// Account returns the progress of x with Peers[i], and whether it is incomplete. It is
// called when the exchange has ended.
func (x *Exchange) Account(i int) (a account, open bool) {
	if i < len(x.progress) {
		p := &x.progress[i]
		a = account{Head: p.head.Load(), sent: p.sent.Load(), received: p.received.Load()}
	}
	a.toSend, a.toRecv = length(x.Send, i), length(x.Recv, i)
	return a, x.Head != nil && !a.Head || a.sent < a.toSend || a.received < a.toRecv
}

func length(bufs [][][]byte, i int) int64 {
	n := int64(0)
	if i < len(bufs) {
		for _, b := range bufs[i] {
			n += int64(len(b))
		}
	}
	return n
}

// Outstanding returns the number of bytes of data left to send and to receive. It is
// called when the exchange has ended.
func (x *Exchange) Outstanding() int64 {
	n := int64(0)
	for i := range x.Peers {
		a, _ := x.Account(i)
		n += max(a.toSend-a.sent, 0) + max(a.toRecv-a.received, 0)
	}
	return n
}
