package mtl

import "fmt"

// Language is a version of the Metal Shading Language, with Metal's numbers:
// MTLLanguageVersion.
type Language uintptr

// The versions in which the kernels are written: 3.1 is the first with bfloat.
const (
	MSL31 Language = 3<<16 + 1 // from macOS 14
	MSL32 Language = 3<<16 + 2 // from macOS 15
)

// oldestSystem is the first macOS that has MSL31.
const oldestSystem = 14

func (l Language) String() string { return fmt.Sprintf("MSL %d.%d", l>>16, l&0xFFFF) }

// newest returns the newest version that the system has, 0 if it has none of them. A
// library must be compiled with a version: the default comes from the SDK that the
// program was linked against. Go's linker writes macOS 12 there, which means MSL 2.4,
// without bfloat.
func (rt *Runtime) newest() (l Language) {
	_ = rt.Pool(func() error {
		info := rt.msg(rt.class.processInfo, rt.sel.processInfo)
		atLeast := func(major uintptr) bool {
			return truth(rt.msg3(info, rt.sel.systemAtLeast, [3]uintptr{major, 0, 0}))
		}
		switch {
		case atLeast(oldestSystem + 1):
			l = MSL32
		case atLeast(oldestSystem):
			l = MSL31
		}
		return nil
	})
	return l
}
