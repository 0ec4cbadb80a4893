package mpi

import (
	"encoding/binary"
	"runtime"
	"unsafe"
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
