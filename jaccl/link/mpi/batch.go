package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"time"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/internal/wait"
)

// batch is a list of requests in flight, for MPI_Testsome. MPI writes only to memory
// owned by the batch, in the heap, where it does not move.
type batch struct {
	l      *library
	mem    []byte // the array of the handles
	what   []request
	index  []int32
	status []byte
	out    int32
	args   [5]uintptr
}

// request describes a request of MPI. It keeps the memory that MPI uses alive.
type request struct {
	kind  kind
	peer  int // the peer's rank in the link
	i     int // the peer's index in the exchange
	bytes int // length of a message of data
	keep  []any
}

type kind uint8

const (
	sendHead kind = iota
	recvHead
	sendData
	recvData
	sendBye
	recvBye
	together // a collective
)

// done is a request that has ended.
type done struct {
	request
	count int32 // bytes received
	code  int32 // MPI's error code, 0 for none
}

// add adds a request. MPI writes its handle to the returned slot, which is valid until
// the next add.
func (b *batch) add(r request) unsafe.Pointer {
	n := len(b.what)
	if (n+1)*b.l.handleBytes > len(b.mem) {
		room := max(16, 2*n)
		mem := words(room * b.l.handleBytes)
		copy(mem, b.mem)
		b.mem, b.index, b.status = mem, make([]int32, room), words(room*b.l.statusBytes)
	}
	b.what = append(b.what, r)
	return b.l.slot(b.mem, n)
}

// drop removes the last request, after MPI has refused it.
func (b *batch) drop() { b.what = b.what[:len(b.what)-1] }

// test lets MPI make progress, and appends the requests that have ended to ends.
func (b *batch) test(ends []done) ([]done, error) {
	if len(b.what) == 0 {
		return ends, nil
	}
	clear(b.status)
	b.out = 0
	// All of it is in the heap and held by b, so it does not move.
	b.args = [5]uintptr{uintptr(len(b.what)), uintptr(unsafe.Pointer(&b.mem[0])), uintptr(unsafe.Pointer(&b.out)), uintptr(unsafe.Pointer(&b.index[0])), uintptr(unsafe.Pointer(&b.status[0]))}
	rc := call(b.l.fn.testsome, b.args[:]...)
	runtime.KeepAlive(b)
	found := rc == 0
	first := len(ends)
	for k := range int(max(b.out, 0)) { // MPI_UNDEFINED is negative
		st := b.status[k*b.l.statusBytes:][:b.l.statusBytes]
		d := done{request: b.what[b.index[k]]}
		if rc != 0 { // MPI_ERR_IN_STATUS
			d.code = int32(binary.NativeEndian.Uint32(st[b.l.statusError:]))
			found = found || d.code != 0
		}
		if d.code == 0 && (d.kind == recvHead || d.kind == recvData || d.kind == recvBye) {
			call(b.l.fn.getCount, uintptr(unsafe.Pointer(&st[0])), uintptr(b.l.bytes), uintptr(unsafe.Pointer(&d.count)))
		}
		ends = append(ends, d)
		b.what[b.index[k]].kind = gone
	}
	if len(ends) > first {
		b.pack()
	}
	if !found {
		return ends, b.l.error("MPI_Testsome", rc)
	}
	return ends, nil
}

// gone marks a request that has ended.
const gone kind = 255

// pack closes the gaps that ended requests leave.
func (b *batch) pack() {
	n := 0
	for i, r := range b.what {
		if r.kind != gone {
			b.what[n] = r
			b.l.move(b.mem, n, i)
			n++
		}
	}
	clear(b.what[n:])
	b.what = b.what[:n]
}

// cancel asks MPI to cancel all matching requests. Receives without a message end; sends
// may not end.
func (b *batch) cancel(match func(request) bool) {
	for i, r := range b.what {
		if match(r) {
			call(b.l.fn.cancel, uintptr(b.l.slot(b.mem, i)))
		}
	}
}

// pauser paces the polls of one wait.
type pauser struct {
	wait.Waiter
	usleep uintptr
}

// sleepMoving is the time that a rank sleeps while data moves, because MPI moves data
// only when called. While waiting for a peer, sleeps become longer.
const sleepMoving = 20 * time.Microsecond

// newPauser returns a pauser using the C library's functions, because there may be more
// ranks than cores: Go's sleeps are rounded up to milliseconds, and Go's yield does not
// let other processes run.
func newPauser() (pauser, error) {
	yield, err := dynlib.C("sched_yield")
	if err != nil {
		return pauser{}, err
	}
	usleep, err := dynlib.C("usleep")
	return pauser{wait.New(wait.Policy{
		Spin: 20 * time.Microsecond, Least: 2 * time.Microsecond, SpinTurns: 256,
		Yield: 250 * time.Microsecond, Offer: func() { call(yield) }, YieldTurns: 1,
		Rest: sleepMoving, MaxRest: 500 * time.Microsecond,
	}), usleep}, err
}

// pause waits after a poll that found nothing.
func (p *pauser) pause(moving bool) {
	if p.Idle() != wait.Sleep {
		return
	}
	d := sleepMoving
	if !moving {
		d = p.Rest()
	}
	call(p.usleep, uintptr(d/time.Microsecond))
	runtime.Gosched() // for the other goroutines of this process
}

var errClosed = errors.New("mpi: the link is closed")

// wait tests a collective of the world until it ends.
func (w *World) wait(ctx context.Context, b *batch) error {
	p := w.pauser
	p.Begin()
	for {
		w.mu.Lock()
		ends, err := b.test(nil)
		w.mu.Unlock()
		if err != nil {
			w.keep(b)
			return err
		}
		for _, d := range ends {
			if d.code != 0 {
				w.keep(b)
				return w.lib.error("a collective", d.code)
			}
		}
		if len(b.what) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			w.keep(b)
			return context.Cause(ctx)
		}
		p.pause(false)
	}
}

// messageBytes is the most bytes of data that one message carries. An exchange's account
// counts whole messages, so they must be short enough for progress within a deadline. The
// length also has to fit into C's int.
const messageBytes = 16 << 20

// messages cuts the concatenation of bufs into messages, each a list of buffers or parts
// of buffers. Both sides of a pair cut at the same bytes, regardless of the buffers'
// boundaries.
func messages(bufs [][]byte) [][][]byte {
	var out [][][]byte
	var m [][]byte
	room := messageBytes
	for _, b := range bufs {
		for len(b) > 0 {
			n := min(len(b), room)
			m = append(m, b[:n:n])
			b, room = b[n:], room-n
			if room == 0 {
				out, m, room = append(out, m), nil, messageBytes
			}
		}
	}
	if len(m) > 0 {
		out = append(out, m)
	}
	return out
}

// postData posts a message. The caller holds w.mu.
func (l *transport) postData(m [][]byte, r request) error {
	for _, b := range m {
		r.bytes += len(b)
		r.keep = append(r.keep, b)
	}
	l.moving++
	post := l.send
	if r.kind == recvData {
		post = l.receive
	}
	if len(m) == 1 {
		return post(r, m[0], tagData)
	}
	return l.postParts(m, r)
}

// postParts posts a message consisting of several parts, with an MPI type that has their
// addresses: MPI gathers and scatters them, so no copy is made here.
func (l *transport) postParts(m [][]byte, r request) error {
	lib := l.w.lib
	lengths, starts := make([]int32, len(m)), make([]uintptr, len(m))
	for i, b := range m {
		lengths[i], starts[i] = int32(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(b))) // in the heap, and kept by r
	}
	typ := new(uint64)
	if err := lib.error("MPI_Type_create_hindexed", call(lib.fn.createHindexed, uintptr(len(m)), uintptr(unsafe.Pointer(&lengths[0])),
		uintptr(unsafe.Pointer(&starts[0])), uintptr(lib.bytes), uintptr(unsafe.Pointer(typ)))); err != nil {
		return err
	}
	if err := lib.error("MPI_Type_commit", call(lib.fn.typeCommit, uintptr(unsafe.Pointer(typ)))); err != nil {
		return err
	}
	p := &l.peers[r.peer]
	fn, name, tag := lib.fn.isend, "MPI_Isend", p.out+tagData
	if r.kind == recvData {
		fn, name, tag = lib.fn.irecv, "MPI_Irecv", p.in+tagData
	}
	// From address 0, which is MPI_BOTTOM: the type has the addresses.
	err := l.post(name, call(fn, 0, 1, uintptr(*typ), uintptr(p.to), uintptr(tag), uintptr(l.w.comm), uintptr(l.b.add(r))))
	// The type lives until the message has ended.
	if e := lib.error("MPI_Type_free", call(lib.fn.typeFree, uintptr(unsafe.Pointer(typ)))); err == nil {
		err = e
	}
	return err
}
