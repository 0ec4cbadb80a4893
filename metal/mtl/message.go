package mtl

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// invoke calls a C function of integers and pointers; see dynlib.Call for the pointers.
//
//go:uintptrescapes
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _ := dynlib.Call(fn, args...)
	return r
}

// msg sends a message whose arguments and result are integers and pointers; for
// pointers, see invoke. Messages to nil return 0, as ever in Objective-C.
//
//go:uintptrescapes
func (rt *Runtime) msg(self, selector uintptr, args ...uintptr) uintptr {
	frame := make([]uintptr, 2+len(args))
	frame[0], frame[1] = self, selector
	copy(frame[2:], args)
	r, _ := dynlib.Call(rt.send, frame...)
	return r
}

// msg2 is msg for messages that return a structure of two words, in two registers.
func (rt *Runtime) msg2(self, selector uintptr, a, b uintptr) (r1, r2 uintptr) {
	return dynlib.Call(rt.send, self, selector, a, b)
}

// truth is a BOOL, of which only the low 8 bits of the register are defined.
func truth(r uintptr) bool { return byte(r) != 0 }

// Pool calls f in an autorelease pool, on one thread of the system, as pools belong to
// threads. It returns f's error.
func (rt *Runtime) Pool(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := invoke(rt.push)
	defer invoke(rt.pop, pool)
	return f()
}

// pooled sends a message that returns an autoreleased object, and returns that
// retained: it is released with its pool, before anybody could use it.
//
//go:uintptrescapes
func (rt *Runtime) pooled(self, selector uintptr, args ...uintptr) (id uintptr) {
	_ = rt.Pool(func() error {
		id = rt.msg(rt.msg(self, selector, args...), rt.sel.retain)
		return nil
	})
	return id
}

// object is a reference to an object of Metal, which it owns.
type object struct {
	rt *Runtime
	id atomic.Uintptr // 0 once it is closed
}

func (o *object) own(rt *Runtime, id uintptr) {
	o.rt = rt
	o.id.Store(id)
}

// close releases the object, once.
func (o *object) close() {
	if id := o.id.Swap(0); id != 0 {
		o.rt.msg(id, o.rt.sel.release)
	}
}

// cstring is s as C has it: p's bytes, up to the zero. Its pointer becomes a uintptr in
// the list of arguments.
func cstring(s string) *byte { return &append([]byte(s), 0)[0] }

// pointer is p as a pointer to memory that is not Go's.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
