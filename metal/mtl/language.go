package mtl

import "fmt"

// Language is a version of the Metal Shading Language, with Metal's numbers:
// MTLLanguageVersion.
type Language uintptr

// The versions used by the kernels: 3.1 is the first with bfloat.
const (
	MSL31 Language = 3<<16 + 1 // from macOS 14
	MSL32 Language = 3<<16 + 2 // from macOS 15
	MSL40 Language = 4 << 16   // from macOS 26; only for tensor operations
)

// tensorSystem is the first macOS version with MSL40.
const tensorSystem = 26

// oldestSystem is the first macOS version with MSL31.
const oldestSystem = 14

func (l Language) String() string { return fmt.Sprintf("MSL %d.%d", l>>16, l&0xFFFF) }

// HasTensors reports whether the system has MSL40.
func (d *Device) HasTensors() bool { return d.rt.atLeast(tensorSystem) }

// atLeast reports whether the system is macOS with this major version, or newer.
func (rt *Runtime) atLeast(major uintptr) (yes bool) {
	_ = rt.Pool(func() error {
		info := rt.msg(rt.class.processInfo, rt.sel.processInfo)
		yes = truth(rt.msg3(info, rt.sel.systemAtLeast, [3]uintptr{major, 0, 0}))
		return nil
	})
	return yes
}

// newest returns the newer of the system's MSL32 and MSL31, 0 if it has neither. A library must be
// compiled for an explicit version: the default comes from the SDK that the program was linked
// against. Go's linker writes macOS 12 there, meaning MSL 2.4, without bfloat.
func (rt *Runtime) newest() Language {
	switch {
	case rt.atLeast(oldestSystem + 1):
		return MSL32
	case rt.atLeast(oldestSystem):
		return MSL31
	}
	return 0
}
