//go:build linux && (amd64 || arm64)

package standin

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// process holds the state shared by all stand-ins of a process. A Go function callable from C is
// never freed, and a process can have some thousand of them. So all stand-ins share one, passing
// the number of the stand-in as the first argument.
type process struct {
	// locks is a page of locks. Function constants are variables of a library of kernels,
	// and all stand-ins of the process share that library.
	locks   uintptr
	compile uintptr // the function called from C

	mu        sync.Mutex
	last      uintptr
	compilers map[uintptr]compiler // by number
}

// compiler compiles a source in a version of the language, given by Metal's number.
type compiler func(source string, language uintptr, fast bool) (path string, err error)

var shared = sync.OnceValues(func() (*process, error) {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	p := &process{locks: uintptr(unsafe.Pointer(&b[0])), compilers: map[uintptr]compiler{}}
	p.compile = purego.NewCallback(p.called)
	return p, nil
})

// add returns the number of a new stand-in using compile.
func (p *process) add(compile compiler) uintptr {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.compilers[p.last] = compile
	return p.last
}

func (p *process) remove(number uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.compilers, number)
}

// called compiles a source of n bytes for the stand-in with a number. It writes the path of the
// shared object to out, which has room bytes, and returns 0. If compiling fails, it writes the
// compiler's text and returns 1.
func (p *process) called(number uintptr, source *byte, n, language, fast uintptr, out *byte, room uintptr) uintptr {
	p.mu.Lock()
	compile := p.compilers[number]
	p.mu.Unlock()
	answer, failed := "the stand-in is closed", uintptr(1)
	if compile != nil {
		path, err := compile(string(unsafe.Slice(source, n)), language, fast != 0)
		said := new(emu.BuildError)
		switch {
		case err == nil:
			answer, failed = path, 0
		case errors.As(err, &said):
			answer = said.Text
		default:
			answer = err.Error()
		}
	}
	to := unsafe.Slice(out, room)
	clear(to[copy(to[:len(to)-1], answer):])
	return failed
}
