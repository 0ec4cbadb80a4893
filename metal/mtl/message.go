package mtl

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// invoke calls a C function taking integers and pointers; for pointers, see dynlib.Call.
//
//go:uintptrescapes
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _ := dynlib.Call(fn, args...)
	return r
}

// msg sends a message with integer and pointer arguments and an integer or pointer result; for
// pointers, see invoke. As always in Objective-C, messages to nil return 0.
//
//go:uintptrescapes
func (rt *Runtime) msg(self, selector uintptr, args ...uintptr) uintptr {
	frame := make([]uintptr, 2+len(args))
	frame[0], frame[1] = self, selector
	copy(frame[2:], args)
	r, _ := dynlib.Call(rt.send, frame...)
	return r
}

// msg2 is msg for messages returning a structure of two words in two registers.
func (rt *Runtime) msg2(self, selector uintptr, a, b uintptr) (r1, r2 uintptr) {
	return dynlib.Call(rt.send, self, selector, a, b)
}

// truth converts a BOOL. Only the low 8 bits of the register are defined.
func truth(r uintptr) bool { return byte(r) != 0 }

// Pool calls f in an autorelease pool, on one thread of the system, because a pool belongs to a
// thread. It returns f's error.
func (rt *Runtime) Pool(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := invoke(rt.push)
	defer invoke(rt.pop, pool)
	return f()
}

// pooled sends a message returning an autoreleased object, and returns the object retained.
// Otherwise the pool would release it before its use.
//
//go:uintptrescapes
func (rt *Runtime) pooled(self, selector uintptr, args ...uintptr) (id uintptr) {
	_ = rt.Pool(func() error {
		id = rt.msg(rt.msg(self, selector, args...), rt.sel.retain)
		return nil
	})
	return id
}

// object is an owning reference to an object of Metal.
type object struct {
	rt *Runtime
	id atomic.Uintptr // 0 after closing
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

// cstring returns s as a C string: a pointer to its bytes, followed by a zero. The caller converts
// the pointer to a uintptr in the argument list.
func cstring(s string) *byte { return &append([]byte(s), 0)[0] }

// pointer converts p to a pointer to memory that is not Go's.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
