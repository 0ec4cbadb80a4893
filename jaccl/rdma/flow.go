package rdma

// flow is a sequence of messages that one rank sends to another: n bytes that come from, or
// go into, pieces of memory one after another. All messages have the same class, unless
// apart is set.
type flow struct {
	pieces [][]byte
	n      int
	class  int
	kind   flowKind
	// exact makes messages as long as the bytes that they carry. Otherwise a message is a
	// whole buffer of its class, as in JACCL, and the rest of the buffer is meaningless.
	exact bool
	// apart keeps the bytes of two pieces out of one message. The class of a message then
	// depends on the length of its piece.
	apart  bool
	posted int // bytes in messages given to the device
	moved  int // bytes in messages that are complete and, if received, taken

	ahead, behind cursor // the start of the next message to be posted, and of the next one to be taken, in pieces
}

// flowKind determines the handling of received messages.
type flowKind uint8

const (
	Data flowKind = iota // the bytes go into the flow's pieces
	Head                 // the bytes go into the flow's pieces; they are a head and do not count as data
	kept                 // the message stays in the slab until Endpoint.Take is called
)

func newFlow(kind flowKind, pieces [][]byte, class int) flow {
	f := flow{pieces: pieces, kind: kind, class: class}
	for _, p := range pieces {
		f.n += len(p)
	}
	return f
}

// next returns the number of bytes in the flow's next message, 0 after the last one, and
// its class.
func (f *flow) next() (n, class int) {
	n = min(f.n-f.posted, ClassBytes(f.class))
	if !f.apart || n == 0 {
		return n, f.class
	}
	rest := f.ahead.run(f.pieces)
	class = ClassOf(len(f.pieces[f.ahead.piece]))
	return min(len(rest), ClassBytes(class)), class
}

// all reports whether all messages have been given to the device.
func (f *flow) all() bool { return f.posted == f.n }

// cursor is a place in pieces.
type cursor struct{ piece, off int }

// run returns the rest of the piece at the cursor. The result is not empty: at the end of a
// piece the cursor moves to the next one.
func (c *cursor) run(pieces [][]byte) []byte {
	for c.off == len(pieces[c.piece]) {
		c.piece, c.off = c.piece+1, 0
	}
	return pieces[c.piece][c.off:]
}

// copyOut fills dst from the pieces, moving the cursor.
func (c *cursor) copyOut(dst []byte, pieces [][]byte) {
	for len(dst) > 0 {
		n := copy(dst, c.run(pieces))
		dst, c.off = dst[n:], c.off+n
	}
}

// copyIn writes src into the pieces, moving the cursor.
func (c *cursor) copyIn(pieces [][]byte, src []byte) {
	for len(src) > 0 {
		n := copy(c.run(pieces), src)
		src, c.off = src[n:], c.off+n
	}
}

// skip moves the cursor by n bytes lying in one piece.
func (c *cursor) skip(pieces [][]byte, n int) {
	c.run(pieces)
	c.off += n
}

// advance moves the cursor by n bytes, which may span several pieces.
func (c *cursor) advance(pieces [][]byte, n int) {
	for n > 0 {
		k := min(n, len(c.run(pieces)))
		c.off, n = c.off+k, n-k
	}
}
