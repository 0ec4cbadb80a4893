package mtl

import (
	"fmt"
	"unsafe"
)

// text returns a copy of the C string at p.
func text(p uintptr) string {
	if p == 0 {
		return ""
	}
	q, n := pointer(p), 0
	for *(*byte)(unsafe.Add(q, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(q), n))
}

// nsstring returns an autoreleased NSString, to be used in the Pool that it was made in.
func (rt *Runtime) nsstring(s string) uintptr {
	return rt.msg(rt.class.string, rt.sel.stringWithUTF8String, uintptr(unsafe.Pointer(cstring(s))))
}

// text returns a copy of an NSString, "" for nil.
func (rt *Runtime) text(s uintptr) string { return text(rt.msg(s, rt.sel.utf8String)) }

// label names an object of Metal, for its debugger.
func (rt *Runtime) label(id uintptr, s string) {
	if s == "" {
		return
	}
	_ = rt.Pool(func() error {
		rt.msg(id, rt.sel.setLabel, rt.nsstring(s))
		return nil
	})
}

// Error is an NSError of Metal, keeping Metal's own words.
type Error struct {
	Op     string // the failing operation
	Domain string // "MTLCommandBufferErrorDomain" and the like
	Code   int    // number within the domain
	Text   string // the localized description
}

func (e *Error) Error() string {
	return fmt.Sprintf("mtl: %s: %s (%s %d)", e.Op, e.Text, e.Domain, e.Code)
}

// failure converts an NSError, which may be nil, to an Error. It must be called in a Pool, because
// it requests strings, which are autoreleased.
func (rt *Runtime) failure(op string, id uintptr) error {
	if id == 0 {
		return fmt.Errorf("mtl: %s: Metal refuses and does not say why", op)
	}
	return &Error{
		Op:     op,
		Domain: rt.text(rt.msg(id, rt.sel.domain)),
		Code:   int(rt.msg(id, rt.sel.code)),
		Text:   rt.text(rt.msg(id, rt.sel.localizedDescription)),
	}
}
