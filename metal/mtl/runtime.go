package mtl

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrNoMetal is wrapped by errors that say that there is no Metal here, or no device.
var ErrNoMetal = errors.New("mtl: no Metal")

// Runtime is an Objective-C runtime with the classes of Metal. It is for the whole
// process and is not closed.
type Runtime struct {
	send   uintptr // objc_msgSend
	push   uintptr // objc_autoreleasePoolPush
	pop    uintptr // objc_autoreleasePoolPop
	create uintptr // MTLCreateSystemDefaultDevice

	sel    selectors
	class  classes
	double func(self, selector uintptr) float64
}

// classes are the classes to which messages are sent themselves.
type classes struct {
	string, constants, compileOptions, heapDescriptor uintptr
}

// Load returns the Runtime of two open libraries, by their handles: objc has the
// functions of the Objective-C runtime and metal has MTLCreateSystemDefaultDevice.
// They stay open as long as the Runtime and its objects are used.
func Load(objc, metal uintptr) (*Runtime, error) {
	rt := &Runtime{}
	var getClass, register uintptr
	for _, s := range []struct {
		library uintptr
		name    string
		to      *uintptr
	}{
		{objc, "objc_msgSend", &rt.send}, {objc, "objc_getClass", &getClass}, {objc, "sel_registerName", &register},
		{objc, "objc_autoreleasePoolPush", &rt.push}, {objc, "objc_autoreleasePoolPop", &rt.pop},
		{metal, "MTLCreateSystemDefaultDevice", &rt.create},
	} {
		address, err := symbol(s.library, s.name)
		if err != nil {
			return nil, fmt.Errorf("%w: the library has no function %s: %w", ErrNoMetal, s.name, err)
		}
		*s.to = address
	}
	for name, to := range rt.sel.names() {
		if *to = named(register, name); *to == 0 {
			return nil, fmt.Errorf("%w: selector %s can not be registered", ErrNoMetal, name)
		}
	}
	for name, to := range map[string]*uintptr{
		"NSString": &rt.class.string, "MTLFunctionConstantValues": &rt.class.constants,
		"MTLCompileOptions": &rt.class.compileOptions, "MTLHeapDescriptor": &rt.class.heapDescriptor,
	} {
		if *to = named(getClass, name); *to == 0 {
			return nil, fmt.Errorf("%w: there is no class %s", ErrNoMetal, name)
		}
	}
	rt.double = doubles(rt.send)
	return rt, nil
}

// named calls a C function of a name.
func named(fn uintptr, name string) uintptr {
	return invoke(fn, uintptr(unsafe.Pointer(cstring(name))))
}
