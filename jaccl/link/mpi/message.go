package mpi

import (
	"unsafe"
)

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
