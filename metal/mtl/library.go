package mtl

import (
	"slices"
	"unsafe"
)

// Options are the settings for compiling a library.
type Options struct {
	// FastMath lets the compiler reorder arithmetic and ignore NaNs and infinities, as Metal's
	// compiler does by default.
	FastMath bool
	// Language is the version of the language; 0 is the newer of the system's MSL31 and MSL32.
	Language Language
}

type libraryKey struct {
	source string
	Options
}

// Library is compiled source. The device owns it.
type Library struct{ object }

// Library compiles source in the Metal shading language. For the same text and options it returns the
// same Library again. It blocks while compiling, which takes seconds for long texts. Errors contain
// the compiler's text.
func (d *Device) Library(source string, o Options) (*Library, error) {
	if _, err := d.open("library"); err != nil {
		return nil, err
	}
	if o.Language == 0 {
		o.Language = d.rt.language
	}
	key := libraryKey{source, o}
	e := share(&d.mu, d.libraries, key)
	l, err := e.do(func() (*Library, error) { return d.compile(source, o) })
	if err != nil {
		forget(&d.mu, d.libraries, key, e)
	}
	return l, err
}

func (d *Device) compile(source string, o Options) (*Library, error) {
	rt := d.rt
	options := rt.msg(rt.msg(rt.class.compileOptions, rt.sel.alloc), rt.sel.initialize)
	defer rt.msg(options, rt.sel.release)
	var fast uintptr
	if o.FastMath {
		fast = 1
	}
	rt.msg(options, rt.sel.setLanguageVersion, uintptr(o.Language))
	rt.msg(options, rt.sel.setFastMathEnabled, fast)
	l := &Library{}
	err := rt.Pool(func() error {
		failure := new(uintptr)
		id := rt.msg(d.id.Load(), rt.sel.newLibrary, rt.nsstring(source), options, uintptr(unsafe.Pointer(failure)))
		if id == 0 {
			return rt.failure("library", *failure)
		}
		l.own(rt, id) // Metal returns warnings as an error object along with the library; that is no failure
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Functions returns the names of the library's functions, sorted.
func (l *Library) Functions() []string {
	var names []string
	_ = l.rt.Pool(func() error {
		array := l.rt.msg(l.id.Load(), l.rt.sel.functionNames)
		for i := range l.rt.msg(array, l.rt.sel.count) {
			names = append(names, l.rt.text(l.rt.msg(array, l.rt.sel.objectAtIndex, i)))
		}
		return nil
	})
	slices.Sort(names)
	return names
}
