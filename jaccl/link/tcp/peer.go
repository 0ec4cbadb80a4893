package tcp

import (
	"errors"
	"fmt"
	"io"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/jaccl/link"
)

const (
	typeExchange = 1 // the only type of frame

	// ahead is the number of bytes read when a header is expected. Data among these bytes
	// has to be copied, so their number is chosen to be copied in the time of a system
	// call.
	ahead = 8 << 10
	// most is the largest number of bytes moved by one system call. Sockets hold less, so
	// no call takes longer than copying a socket's contents. Smaller pieces were slower:
	// an exchange of 1 MiB each way with one peer on the same machine took half as long
	// again with 256 KiB.
	most = 4 << 20
)

// stage is the next part that a rank expects from a peer.
type stage uint8

const (
	nothing stage = iota // nothing: the peer's part of the exchange has arrived
	heading              // the header and the head
	headed               // the other peers' heads
	flowing              // data
)

// peer is the state of a connection: the data left to send and the data received. A mover
// moves the bytes and updates the peer.
type peer struct {
	rank int
	name string // rank and host, for errors
	near bool   // the peer is a lower rank on this host, which has a core for each of its ranks
	x    *link.Exchange
	i    int // the peer's index in x.Peers

	sent     uint32   // number of frames sent, which is the next frame's number
	first    []byte   // header and head, reused
	out      [][]byte // data left to send
	overhead int      // bytes of header and head at the front of out
	outgoing int64    // bytes of data that this exchange sends

	received uint32 // number of frames received
	stage    stage
	buf      []byte // buf[r:w] has been read ahead
	r, w     int
	header   frame.Header
	in       [][]byte // the buffers that are still to be filled with data
	incoming int64    // bytes of data to receive in this exchange
}

// begin prepares the peer for an exchange.
func (p *peer) begin(x *link.Exchange, i int) {
	p.x, p.i = x, i
	p.out, p.overhead, p.outgoing = p.out[:0], 0, 0
	p.in, p.incoming = p.in[:0], 0
	p.header = frame.Header{}
	send := buffers(x.Send, i)
	p.outgoing = total(send)
	if x.Head != nil || p.outgoing > 0 {
		p.first = frame.Append(p.first[:0], frame.Header{Type: typeExchange, Seq: p.sent, Data: p.outgoing}, x.Head)
		p.sent++
		p.overhead = len(p.first)
		p.out = append(p.out, p.first)
		for _, b := range send {
			if len(b) > 0 {
				p.out = append(p.out, b)
			}
		}
	}
	p.stage = nothing
	if x.Head != nil {
		p.stage = heading
		return
	}
	if p.incoming = total(buffers(x.Recv, i)); p.incoming > 0 {
		p.stage = heading
	}
}

// end drops the references to the caller's buffers.
func (p *peer) end() {
	clear(p.out[:cap(p.out)])
	clear(p.in[:cap(p.in)])
	p.out, p.in, p.x = p.out[:0], p.in[:0], nil
}

func buffers(all [][][]byte, i int) [][]byte {
	if i < len(all) {
		return all[i]
	}
	return nil
}

func total(bufs [][]byte) int64 {
	n := int64(0)
	for _, b := range bufs {
		n += int64(len(b))
	}
	return n
}

// sending reports whether anything is still to be sent.
func (p *peer) sending() bool { return len(p.out) > 0 }

// wrote removes the first n bytes of out, which have been sent, and counts them.
func (p *peer) wrote(n int) {
	p.out = advance(p.out, n)
	head := min(n, p.overhead)
	if p.overhead -= head; n > head {
		p.x.Sent(p.i, n-head)
	}
}

// advance removes the first n bytes of bufs. It reuses the array of bufs.
func advance(bufs [][]byte, n int) [][]byte {
	k := 0
	for k < len(bufs) && n >= len(bufs[k]) {
		n -= len(bufs[k])
		k++
	}
	if k > 0 {
		m := copy(bufs, bufs[k:])
		clear(bufs[m:])
		bufs = bufs[:m]
	}
	if n > 0 {
		bufs[0] = bufs[0][n:]
	}
	return bufs
}

// receiving reports whether anything is to be read now.
func (p *peer) receiving() bool { return p.stage == heading || p.stage == flowing }

// room returns the memory for the next bytes of the header and the head.
func (p *peer) room() []byte {
	if p.r > 0 {
		p.w = copy(p.buf, p.buf[p.r:p.w])
		p.r = 0
	}
	if need := max(ahead, frame.Size+p.header.Head); len(p.buf) < need {
		p.buf = append(p.buf[:p.w], make([]byte, need-p.w)...)
	}
	return p.buf[p.w:]
}

// filled processes n bytes that were read into room.
func (p *peer) filled(n int) error {
	p.w += n
	return p.parse()
}

// parse checks whether the header and the head have arrived, and if so, whether they are
// valid. Then the stage is headed, or flowing if the exchange has no heads.
func (p *peer) parse() error {
	have := p.buf[p.r:p.w]
	if len(have) < frame.Size {
		return nil
	}
	limit := link.MaxHead
	if p.x.Head == nil {
		limit = 0
	}
	h, err := frame.Parse(have, limit)
	switch {
	case err != nil:
		return p.error("receiving", err)
	case h.Type != typeExchange || h.Seq != p.received:
		return p.error("receiving", fmt.Errorf("frame %d of type %d, want %d of type %d", h.Seq, h.Type, p.received, typeExchange))
	}
	if p.header = h; len(have) < frame.Size+h.Head {
		return nil
	}
	if err := h.Check(have, p.head()); err != nil {
		return p.error("receiving", err)
	}
	p.received++
	p.stage = headed
	if p.x.Head != nil {
		p.x.Came(p.i)
		return nil
	}
	return p.flow(buffers(p.x.Recv, p.i))
}

// head returns the peer's head, at stage headed.
func (p *peer) head() []byte {
	start := p.r + frame.Size
	return p.buf[start : start+p.header.Head : start+p.header.Head]
}

// flow begins to receive data into recv. It is called when all heads have arrived. Data
// read ahead is copied into recv.
func (p *peer) flow(recv [][]byte) error {
	p.incoming = total(recv)
	if p.incoming != p.header.Data {
		return p.error("receiving", fmt.Errorf("it sends %d bytes of data, want %d", p.header.Data, p.incoming))
	}
	p.r += frame.Size + p.header.Head
	p.stage = flowing
	p.in = p.in[:0]
	for _, b := range recv {
		if len(b) > 0 {
			p.in = append(p.in, b)
		}
	}
	n := 0
	for n < p.w-p.r && len(p.in) > 0 {
		k := copy(p.in[0], p.buf[p.r+n:p.w])
		n += k
		p.in = advance(p.in, k)
	}
	p.r += n
	p.take(n)
	return nil
}

// got removes the first n bytes of in, which have been received, and counts them.
func (p *peer) got(n int) {
	p.in = advance(p.in, n)
	p.take(n)
}

func (p *peer) take(n int) {
	if n > 0 {
		p.x.Received(p.i, n)
	}
	if len(p.in) == 0 {
		p.stage = nothing
	}
}

// error returns a *link.PeerError for this peer, with the progress of the exchange.
func (p *peer) error(doing string, err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection has ended")
	}
	what := ""
	switch {
	case doing == "sending" && p.outgoing > 0:
		what = fmt.Sprintf(", %d of %d bytes left", total(p.out)-int64(p.overhead), p.outgoing)
	case doing == "receiving" && p.stage == heading:
		what = fmt.Sprintf(" frame %d, %d bytes of it there", p.received, p.w-p.r)
	case doing == "receiving" && p.stage == flowing:
		what = fmt.Sprintf(", %d of %d bytes missing", total(p.in), p.incoming)
	}
	return &link.PeerError{Peer: p.rank, Err: fmt.Errorf("tcp: %s: %s%s: %w", p.name, doing, what, err)}
}
