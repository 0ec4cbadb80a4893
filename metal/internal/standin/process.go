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

// process is what all stand-ins of a process share. What C calls in Go is made once and
// never freed, some thousand functions at most: so it is one for all of them, and says by
// number whom it is for.
type process struct {
	locks   uintptr // a page of them: function constants are variables of a library of kernels, which is open once
	compile uintptr // as C calls it

	mu        sync.Mutex
	last      uintptr
	compilers map[uintptr]func(source string, old, fast bool) (path string, err error) // by number
}

var shared = sync.OnceValues(func() (*process, error) {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	p := &process{locks: uintptr(unsafe.Pointer(&b[0])), compilers: map[uintptr]func(string, bool, bool) (string, error){}}
	p.compile = purego.NewCallback(p.called)
	return p, nil
})

// add returns a number for a stand-in that compiles so.
func (p *process) add(compile func(source string, old, fast bool) (path string, err error)) uintptr {
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

// called compiles a source of n bytes for a stand-in. It writes a path of at most room
// bytes to out and returns 0, or what the compiler has to say, and returns 1.
func (p *process) called(number uintptr, source *byte, n, language, fast uintptr, out *byte, room uintptr) uintptr {
	p.mu.Lock()
	compile := p.compilers[number]
	p.mu.Unlock()
	answer, failed := "the stand-in is closed", uintptr(1)
	if compile != nil {
		path, err := compile(string(unsafe.Slice(source, n)), language < 3<<16+2, fast != 0)
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
