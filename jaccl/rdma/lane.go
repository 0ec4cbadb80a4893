package rdma

import (
	"fmt"
	"unsafe"
)

// message is a buffer held by the device, or filled by the device and not taken yet.
type message struct {
	flow   *flow
	bytes  int
	class  int
	off    int  // offset of its first byte in the flow
	parity int  // which of the two slots of its class it has in the slab
	direct bool // it is in the flow's pieces, not in the slab
}

// length returns the length of the buffer given to the device.
func (m *message) length() int {
	if m.flow.exact {
		return m.bytes
	}
	return ClassBytes(m.class)
}

// slot returns the message's offset in the slab. It means nothing for direct messages.
func (m *message) slot() int { return slot(m.class, m.parity) }

// Lane is one direction of an endpoint. Messages complete in the order of posting, as the
// verbs guarantee for one queue.
type Lane struct {
	flows   [3]flow
	count   int            // number of flows
	current int            // the flow being posted
	queue   [depth]message // a ring of the messages that are not done
	first   int            // place of the oldest message in queue
	used    int            // number of messages in queue
	arrived int            // the number of these, from the oldest on, that are complete
	Turn    int            // number of all messages so far; its parity selects the slot
}

// Reset removes the flows of the last exchange.
func (l *Lane) Reset() {
	clear(l.flows[:l.count])
	l.count, l.current = 0, 0
}

// Add appends a flow of pieces, in whole buffers of a class. It does nothing if the pieces
// have no bytes.
func (l *Lane) Add(kind flowKind, pieces [][]byte, class int) {
	if f := newFlow(kind, pieces, class); f.n > 0 {
		l.flows[l.count] = f
		l.count++
	}
}

// AddData appends a flow of data in messages that are no longer than the bytes that they
// carry. If apart is set, messages end at the ends of pieces. AddData does nothing if the
// pieces have no bytes.
func (l *Lane) AddData(pieces [][]byte, apart bool) {
	f := newFlow(Data, pieces, 0)
	if f.n == 0 {
		return
	}
	f.class, f.exact, f.apart = ClassOf(f.n), true, apart
	l.flows[l.count] = f
	l.count++
}

// AddKept appends a flow of n bytes. The caller reads its messages with Endpoint.Oldest
// and removes them with Endpoint.Take.
func (l *Lane) AddKept(n, class int) {
	if n > 0 {
		l.flows[l.count] = flow{n: n, class: class, kind: kept}
		l.count++
	}
}

// Idle reports whether all flows of the lane are done.
func (l *Lane) Idle() bool { return l.used == 0 && l.current == l.count }

// Idle reports whether the endpoint has nothing left to send or to receive.
func (e *Endpoint) Idle() bool { return e.Sending.Idle() && e.Receiving.Idle() }

// Outstanding returns the number of bytes of the flows not moved yet.
func (l *Lane) Outstanding() int {
	n := 0
	for i := range l.flows[:l.count] {
		n += l.flows[i].n - l.flows[i].moved
	}
	return n
}

// Left reports whether all flows of a kind are complete.
func (l *Lane) Left(kind flowKind) bool {
	for i := range l.flows[:l.count] {
		if f := &l.flows[i]; f.kind == kind && f.moved < f.n {
			return false
		}
	}
	return true
}

// draw moves the next message from the flows into the queue. It returns nil if there is no
// further message or the queue is full.
func (l *Lane) draw() *message {
	for l.current < l.count && l.flows[l.current].all() {
		l.current++
	}
	if l.current == l.count || l.used == depth {
		return nil
	}
	f := &l.flows[l.current]
	m := &l.queue[(l.first+l.used)%depth]
	*m = message{flow: f, off: f.posted, parity: l.Turn % 2}
	m.bytes, m.class = f.next()
	f.posted += m.bytes
	l.used++
	l.Turn++
	if f.all() {
		l.current++
	}
	return m
}

// drop removes the oldest message from the queue and counts its bytes as moved.
func (l *Lane) drop() {
	l.queue[l.first].flow.moved += l.queue[l.first].bytes
	l.first = (l.first + 1) % depth
	l.used--
}

// postSends gives the device messages to send until the queue is full or the flows have no
// more.
func (e *Endpoint) postSends() error {
	for m := e.Sending.draw(); m != nil; m = e.Sending.draw() {
		f := m.flow
		addr, key := e.SendSlab.addr+uintptr(m.slot()), e.sendKey
		if a, k := e.direct(m); a != 0 {
			addr, key, m.direct = a, k, true
			f.ahead.skip(f.pieces, m.bytes)
		} else {
			f.ahead.copyOut(e.SendSlab.B[m.slot():][:m.bytes], f.pieces)
			if f.kind == Data {
				e.StagedOut += int64(m.bytes)
			}
		}
		if err := e.post(atSend, addr, m.length(), key); err != nil {
			return err
		}
	}
	return nil
}

func (e *Endpoint) postRecvs() error {
	for m := e.Receiving.draw(); m != nil; m = e.Receiving.draw() {
		f := m.flow
		addr, key := e.RecvSlab.addr+uintptr(m.slot()), e.recvKey
		if f.kind == Data {
			if a, k := e.direct(m); a != 0 {
				addr, key, m.direct = a, k, true
			}
			f.ahead.advance(f.pieces, m.bytes)
		}
		if err := e.post(atRecv, addr, m.length(), key); err != nil {
			return err
		}
	}
	return nil
}

// direct returns the address of a drawn message in the caller's own memory, and the key
// of that memory. The address is 0 if the message has to go through the slab: a device
// takes one contiguous range of memory for a message, within a registered region.
func (e *Endpoint) direct(m *message) (uintptr, uint32) {
	f := m.flow
	if !f.exact || len(*e.at.known.Load()) == 0 {
		return 0, 0
	}
	b := f.ahead.run(f.pieces)
	if len(b) < m.bytes {
		return 0, 0
	}
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if key, ok := e.at.keyOf(p, uintptr(m.bytes)); ok {
		return p, key
	}
	return 0, 0
}

// post gives the device a buffer of n bytes to send or to receive into. request is the
// offset of the work request, atSend or atRecv.
func (e *Endpoint) post(request, addr uintptr, n int, key uint32) error {
	r := e.requests.addr
	*word64(r, atSGE+sgeAddr), *word32(r, atSGE+sgeLength), *word32(r, atSGE+sgeLkey) = uint64(addr), uint32(n), key
	wr := r + request
	*word64(wr, wrNext), *word64(wr, wrSG), *word32(wr, wrNSGE) = 0, uint64(r+atSGE), 1
	var err error
	if request == atSend {
		*word64(wr, wrID), *word32(wr, wrOpcode), *word32(wr, wrFlags) = idSend, opcodeSend, sendSignaled
		err = e.lib.do("ibv_post_send", e.postSend, e.sendArgs...)
	} else {
		*word64(wr, wrID) = idRecv
		err = e.lib.do("ibv_post_recv", e.postRecv, e.recvArgs...)
	}
	if err != nil {
		return fmt.Errorf("device %s, which faces rank %d: %w", e.device, e.Peer, err)
	}
	return nil
}

// The ids of work requests, which distinguish completions of a SEND and of a RECV.
const (
	idSend = 1 << 16
	idRecv = 2 << 16
)

// pollOnce takes completions, copies received data out of the slab, and then posts as
// many messages as possible. It returns the number of completions.
func (e *Endpoint) pollOnce() (int, error) {
	n := int(int32(invoke(e.poll, e.pollArgs...)))
	if n < 0 {
		return 0, fmt.Errorf("device %s, which faces rank %d: the completion queue cannot be polled (%d)", e.device, e.Peer, n)
	}
	for i := range n {
		wc := e.requests.addr + atWC + uintptr(i)*wcSize
		if err := e.complete(*word64(wc, wcID), *word32(wc, wcStatus), *word32(wc, wcLength)); err != nil {
			return n, err
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, e.Refill()
}

// Refill posts buffers to receive into, and then messages to send. Each side does it in
// this order, so that buffers are more often posted before the messages for them arrive.
func (e *Endpoint) Refill() error {
	if err := e.postRecvs(); err != nil {
		return err
	}
	return e.postSends()
}

func (e *Endpoint) complete(id uint64, status, length uint32) error {
	l, what := &e.Sending, "sending to"
	if id == idRecv {
		l, what = &e.Receiving, "receiving from"
	}
	if l.arrived == l.used {
		return fmt.Errorf("device %s: a completion of %s rank %d that nothing was posted for", e.device, what, e.Peer)
	}
	m := &l.queue[(l.first+l.arrived)%depth]
	if status != 0 {
		return fmt.Errorf("device %s: %s rank %d: message of %d bytes failed: %s", e.device, what, e.Peer, m.length(), statusText(status))
	}
	if id == idSend {
		if m.flow.kind == Data {
			e.sentBytes += m.bytes
		}
		l.drop()
		return nil
	}
	if want := m.length(); !fitting(length, want) {
		if m.flow.exact {
			return fmt.Errorf("device %s: rank %d has sent a message of %d bytes where %d are due; it is at another exchange, or cuts its data otherwise", e.device, e.Peer, length, want)
		}
		return fmt.Errorf("device %s: rank %d has sent a message of %d bytes where %d are due; JACCL on macOS before 26.3 sends only %d", e.device, e.Peer, length, want, Frame)
	}
	if m.flow.kind == Data {
		e.receivedBytes += m.bytes
	}
	l.arrived++
	if m.flow.kind != kept {
		e.Take()
	}
	return nil
}

// fitting reports whether the length of a completion agrees with the buffer's length. A
// driver may report no length, and a driver moving frames may report whole frames.
func fitting(length uint32, want int) bool {
	return length == 0 || int(length) == want || int(length) == (want+Frame-1)/Frame*Frame
}

// Oldest returns the bytes of the oldest received message, and their offset in the flow,
// which must be one of AddKept: messages of other flows are taken on arrival. ok is false
// if there is none. The bytes are valid until Take.
func (e *Endpoint) Oldest() (b []byte, off int, ok bool) {
	l := &e.Receiving
	if l.arrived == 0 {
		return nil, 0, false
	}
	m := &l.queue[l.first]
	return e.RecvSlab.B[m.slot():][:m.bytes], m.off, true
}

// Take removes the oldest received message. Unless the flow is one of AddKept, the
// message's bytes are put into the flow's pieces first.
func (e *Endpoint) Take() {
	l := &e.Receiving
	m := &l.queue[l.first]
	f := m.flow
	if f.kind != kept {
		if m.direct {
			f.behind.skip(f.pieces, m.bytes)
		} else {
			f.behind.copyIn(f.pieces, e.RecvSlab.B[m.slot():][:m.bytes])
			if f.kind == Data {
				e.StagedIn += int64(m.bytes)
			}
		}
	}
	l.arrived--
	l.drop()
}

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

// The numbers of JACCL's protocol. A message is a whole buffer of one of eight sizes. In
// each direction of a queue pair, the device has at most two messages at a time.
// Thunderbolt moves frames of 4 KiB and holds a message back until a buffer of as many
// frames is posted for it, which works only for a few messages at a time.
const (
	Frame    = 4 << 10
	classes  = 8 // 4 KiB to 512 KiB
	depth    = 2
	slabSize = Frame * (1<<classes - 1) * depth
)

// ClassOf returns the size class of the messages carrying n bytes: the largest class with
// a buffer that n bytes fill, or 0. Both sides of a connection know n, so they post
// buffers of equal size.
func ClassOf(n int) int {
	k := classes - 1
	for k > 0 && n < ClassBytes(k) {
		k--
	}
	return k
}

func ClassBytes(k int) int { return Frame << k }

// slot returns the offset in a slab of one of the two buffers of a class. The parity of a
// message's number selects the buffer.
func slot(class, parity int) int { return Frame*(1<<class-1)*depth + parity*ClassBytes(class) }

// framesOnlyOn reports whether macOS of that version moves messages of one frame only, which
// is so before 26.3. A version that cannot be read is taken for a newer one.
func framesOnlyOn(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n > 0 && (major < 26 || major == 26 && minor < 3)
}
