package rdma

// flow is what goes one way between two ranks without a pause: n bytes in messages of
// one class, out of or into pieces one after another.
type flow struct {
	pieces [][]byte
	n      int
	class  int
	kind   flowKind
	// exact: a message has the length of what it carries. Else it is a whole buffer of the
	// class, as JACCL has it, of which the rest means nothing.
	exact bool
	// apart: no message carries bytes of two pieces, and each piece has its class.
	apart  bool
	posted int // bytes whose messages have been given to the device
	moved  int // bytes whose messages are complete, and taken if they came in

	ahead, behind cursor // in pieces: where the next message begins; where the next one to be taken does
}

// flowKind says who takes what comes in.
type flowKind uint8

const (
	Data flowKind = iota // the flow's pieces
	Head                 // the same, and the link looks at it
	kept                 // whoever calls Endpoint.Take
)

func newFlow(kind flowKind, pieces [][]byte, class int) flow {
	f := flow{pieces: pieces, kind: kind, class: class}
	for _, p := range pieces {
		f.n += len(p)
	}
	return f
}

// next returns how many bytes the flow's next message carries, 0 after the last one, and
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

// run returns the rest of the piece at the cursor, which is not empty.
func (c *cursor) run(pieces [][]byte) []byte {
	for c.off == len(pieces[c.piece]) {
		c.piece, c.off = c.piece+1, 0
	}
	return pieces[c.piece][c.off:]
}

// copyOut fills dst from the pieces.
func (c *cursor) copyOut(dst []byte, pieces [][]byte) {
	for len(dst) > 0 {
		n := copy(dst, c.run(pieces))
		dst, c.off = dst[n:], c.off+n
	}
}

// copyIn writes src into the pieces.
func (c *cursor) copyIn(pieces [][]byte, src []byte) {
	for len(src) > 0 {
		n := copy(c.run(pieces), src)
		src, c.off = src[n:], c.off+n
	}
}

// skip goes on by n bytes of one run.
func (c *cursor) skip(pieces [][]byte, n int) {
	c.run(pieces)
	c.off += n
}

// advance goes on by n bytes, over pieces.
func (c *cursor) advance(pieces [][]byte, n int) {
	for n > 0 {
		k := min(n, len(c.run(pieces)))
		c.off, n = c.off+k, n-k
	}
}
