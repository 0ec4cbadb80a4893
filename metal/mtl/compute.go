package mtl

import (
	"runtime"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
)

const (
	// MaxBytes is the largest length accepted by SetBytes: Metal copies the bytes into the command
	// buffer.
	MaxBytes = 4096
	// Slots is the number of arguments of each kind that a function can have.
	Slots = 31

	threadgroupMemoryAlign = 16 // alignment of threadgroup memory lengths
	barrierBuffers         = 1  // MTLBarrierScopeBuffers
)

// Compute encodes dispatches. Arguments stay set for all later dispatches. Only one goroutine may
// use it, until End.
type Compute struct {
	object
	cb       *CommandBuffer
	pipeline *Pipeline

	// A message's arguments, and the structures passed by reference. They are fields, on the heap,
	// so that sending a message allocates nothing.
	frame [12]uintptr
	sizes [6]uintptr
}

// Compute opens an encoder for dispatches. If concurrent is false, each dispatch sees the writes of
// earlier ones. If it is true, dispatches run concurrently and in any order, unless separated by a
// Barrier.
func (cb *CommandBuffer) Compute(concurrent bool) *Compute {
	e := &Compute{cb: cb}
	e.rt = cb.rt
	var kind uintptr // MTLDispatchTypeSerial
	if concurrent {
		kind = 1
	}
	cb.begin(&e.object, "compute encoder", cb.rt.sel.computeEncoder, kind)
	return e
}

// open reports whether the encoder is usable. If not, it records the mistake in the command buffer.
func (e *Compute) open(what string) bool {
	if e.cb.encoder != &e.object {
		e.cb.fail("%s: the encoder has ended", what)
	}
	return e.cb.err == nil
}

// send sends a message, taking its n arguments from the frame.
func (e *Compute) send(selector uintptr, n int) {
	e.frame[0], e.frame[1] = e.id.Load(), selector
	dynlib.Call(e.rt.send, e.frame[:2+n]...)
	runtime.KeepAlive(e) // the frame may point to its sizes
}

// SetPipeline sets the function run by the following dispatches.
func (e *Compute) SetPipeline(p *Pipeline) {
	if p == nil {
		e.cb.fail("set pipeline: it is nil")
		return
	}
	id := p.id.Load()
	if id == 0 {
		e.cb.fail("set pipeline %s: it is closed, as its device is", p.function)
	}
	if e.open("set pipeline") {
		e.pipeline = p
		e.frame[2] = id
		e.send(e.rt.sel.setPipeline, 1)
	}
}

// SetBuffer passes b, starting at byte offset, as argument [[buffer(index)]]. The offset must be a
// multiple of 4 and of the alignment of the type read by the function. Arguments that the function
// does not read must be set too.
func (e *Compute) SetBuffer(index int, b *Buffer, offset int) {
	if b == nil {
		e.cb.fail("set buffer %d: it is nil", index)
		return
	}
	id := b.id.Load()
	switch {
	case id == 0:
		e.cb.fail("set buffer %d: it is closed", index)
	case index < 0 || index >= Slots:
		e.cb.fail("set buffer %d: want an index below %d", index, Slots)
	case offset < 0 || offset >= len(b.bytes) || offset%4 != 0:
		e.cb.fail("set buffer %d: offset %d, want a multiple of 4 below its length, %d", index, offset, len(b.bytes))
	}
	if e.open("set buffer") {
		e.frame[2], e.frame[3], e.frame[4] = id, uintptr(offset), uintptr(index)
		e.send(e.rt.sel.setBuffer, 3)
	}
}

// SetBytes passes a copy of b, at most MaxBytes, as argument [[buffer(index)]].
func (e *Compute) SetBytes(index int, b []byte) {
	switch {
	case index < 0 || index >= Slots:
		e.cb.fail("set bytes %d: want an index below %d", index, Slots)
	case len(b) == 0 || len(b) > MaxBytes:
		e.cb.fail("set bytes %d: %d bytes, want 1 to %d; use a buffer", index, len(b), MaxBytes)
	}
	if e.open("set bytes") {
		e.setBytes(uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b), index)
	}
}

// setBytes takes a pointer converted by its caller in the argument list. This keeps the bytes in
// place; bytes on a stack could otherwise move before the call.
//
//go:uintptrescapes
func (e *Compute) setBytes(p uintptr, n, index int) {
	e.frame[2], e.frame[3], e.frame[4] = p, uintptr(n), uintptr(index)
	e.send(e.rt.sel.setBytes, 3)
	e.frame[2] = 0
}

// SetThreadgroupMemory sets the length in bytes of argument [[threadgroup(index)]]. The
// length is rounded up to a multiple of 16, as Metal requires.
func (e *Compute) SetThreadgroupMemory(index, n int) {
	if index < 0 || index >= Slots || n <= 0 {
		e.cb.fail("set threadgroup memory %d: %d bytes, want some and an index below %d", index, n, Slots)
	}
	if e.open("set threadgroup memory") {
		n = (n + threadgroupMemoryAlign - 1) &^ (threadgroupMemoryAlign - 1)
		e.frame[2], e.frame[3] = uintptr(n), uintptr(index)
		e.send(e.rt.sel.setThreadgroupMemory, 2)
	}
}

// Dispatch runs the pipeline's function in groups of threads, counted along x, y and z. Each count
// must be at least one. A group may have at most the pipeline's MaxThreads threads.
func (e *Compute) Dispatch(groups, threads [3]int) {
	switch p := e.pipeline; {
	case e.cb.err != nil:
		return
	case p == nil:
		e.cb.fail("dispatch: no pipeline is set")
	case min(groups[0], groups[1], groups[2], threads[0], threads[1], threads[2]) < 1:
		e.cb.fail("dispatch of %s: %v groups of %v threads, want at least 1 in each direction; skip a dispatch of none", p.function, groups, threads)
	case threads[0]*threads[1]*threads[2] > p.facts.MaxThreads:
		e.cb.fail("dispatch of %s: groups of %v threads, want at most %d", p.function, threads, p.facts.MaxThreads)
	}
	if e.open("dispatch") {
		e.send(e.rt.sel.dispatch, e.pass(groups, threads))
	}
}

// Barrier makes later dispatches see the writes of earlier ones.
func (e *Compute) Barrier() {
	if e.open("barrier") {
		e.frame[2] = barrierBuffers
		e.send(e.rt.sel.barrier, 1)
	}
}

// PushDebugGroup names the commands encoded up to PopDebugGroup, for Metal's debugger.
func (e *Compute) PushDebugGroup(name string) {
	if e.open("push debug group") {
		e.cb.groups++
		_ = e.rt.Pool(func() error {
			e.rt.msg(e.id.Load(), e.rt.sel.pushGroup, e.rt.nsstring(name))
			return nil
		})
	}
}

// PopDebugGroup ends the innermost debug group.
func (e *Compute) PopDebugGroup() {
	if e.cb.err == nil && e.cb.groups == 0 {
		e.cb.fail("pop debug group: none is open")
	}
	if e.open("pop debug group") {
		e.cb.groups--
		e.rt.msg(e.id.Load(), e.rt.sel.popGroup)
	}
}

// End ends the encoder, also after a mistake. It may be called twice.
func (e *Compute) End() {
	if e.cb.encoder == &e.object {
		e.cb.endEncoder()
	}
}
