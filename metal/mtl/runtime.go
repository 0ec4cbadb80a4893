package mtl

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// ErrNoMetal is wrapped by errors reporting that this system has no Metal or no device, or that it
// is older than macOS 14.
var ErrNoMetal = errors.New("mtl: no Metal")

// Runtime is an Objective-C runtime with the classes of Metal. It serves the whole
// process and is never closed.
type Runtime struct {
	send   uintptr // objc_msgSend
	push   uintptr // objc_autoreleasePoolPush
	pop    uintptr // objc_autoreleasePoolPop
	create uintptr // MTLCreateSystemDefaultDevice

	sel      selectors
	class    classes
	language Language // language version for compiling libraries
	double   func(self, selector uintptr) float64
}

// classes are the classes receiving messages themselves.
type classes struct {
	string, processInfo, constants, compileOptions, heapDescriptor uintptr
	residencyDescriptor                                            uintptr // 0 before macOS 15
}

// Load returns the Runtime of two open libraries, given by their handles: objc has the functions of
// the Objective-C runtime, metal has MTLCreateSystemDefaultDevice. Both must stay open for as long
// as the Runtime and its objects are used.
func Load(objc, metal uintptr) (*Runtime, error) {
	rt := &Runtime{}
	var getClass, register uintptr
	missing := append(
		dynlib.Library(objc).Bind([]dynlib.Function{
			{Name: "objc_msgSend", To: &rt.send}, {Name: "objc_getClass", To: &getClass}, {Name: "sel_registerName", To: &register},
			{Name: "objc_autoreleasePoolPush", To: &rt.push}, {Name: "objc_autoreleasePoolPop", To: &rt.pop},
		}...),
		dynlib.Library(metal).Bind(dynlib.Function{Name: "MTLCreateSystemDefaultDevice", To: &rt.create})...)
	if missing != nil {
		return nil, fmt.Errorf("%w: the library has no function %s", ErrNoMetal, missing[0])
	}
	for name, to := range rt.sel.names() {
		if *to = named(register, name); *to == 0 {
			return nil, fmt.Errorf("%w: selector %s cannot be registered", ErrNoMetal, name)
		}
	}
	for name, to := range map[string]*uintptr{
		"NSString": &rt.class.string, "NSProcessInfo": &rt.class.processInfo, "MTLFunctionConstantValues": &rt.class.constants,
		"MTLCompileOptions": &rt.class.compileOptions, "MTLHeapDescriptor": &rt.class.heapDescriptor,
	} {
		if *to = named(getClass, name); *to == 0 {
			return nil, fmt.Errorf("%w: there is no class %s", ErrNoMetal, name)
		}
	}
	rt.double = dynlib.Double(rt.send)
	if rt.language = rt.newest(); rt.language == 0 {
		return nil, fmt.Errorf("%w: this macOS is older than macOS %d, whose Metal Shading Language 3.1 is the first with bfloat; update macOS", ErrNoMetal, oldestSystem)
	}
	if rt.language >= MSL32 {
		rt.class.residencyDescriptor = named(getClass, "MTLResidencySetDescriptor")
	}
	return rt, nil
}

// named calls a C function taking a name.
func named(fn uintptr, name string) uintptr {
	return invoke(fn, uintptr(unsafe.Pointer(cstring(name))))
}
