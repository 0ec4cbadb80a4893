//go:build linux && (amd64 || arm64)

package standin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Standin is a stand-in of its own: it shares nothing with others of the process. Its
// methods may be called by several goroutines at once, but Close.
type Standin struct {
	handle uintptr
	number uintptr // the process's

	violation, method, live, outside, fail, end uintptr

	mu     sync.Mutex
	report *Report // the last one, once it is closed
}

// settings are as native/object.h has them.
type settings struct {
	order, eager, absent, stall, limit uint32
	system, width                      uint32
	family                             int32
	seed, memory                       uint64
}

// Open builds the stand-in with compiler c, or takes it from c's cache, and opens it. c
// compiles sources for it, too, for as long as it is open, until ctx is done.
func Open(ctx context.Context, c *emu.Compiler, o Options) (*Standin, error) {
	text, err := source()
	if err != nil {
		return nil, fmt.Errorf("standin: %w", err)
	}
	path, err := c.BuildNative(ctx, text, "-lstdc++", "-ldl", "-lpthread")
	if err != nil {
		return nil, fmt.Errorf("standin: building it: %w", err)
	}
	s := &Standin{}
	if s.handle, err = loadCopy(path); err != nil {
		return nil, fmt.Errorf("standin: opening it: %w", err)
	}
	var begin uintptr
	for name, to := range map[string]*uintptr{
		"standin_open": &begin, "standin_close": &s.end, "standin_fail": &s.fail,
		"standin_violation": &s.violation, "standin_method": &s.method, "standin_live": &s.live, "standin_outside_pools": &s.outside,
	} {
		if *to, err = purego.Dlsym(s.handle, name); err != nil {
			return nil, fmt.Errorf("standin: %w", err)
		}
	}
	p, err := shared()
	if err != nil {
		return nil, fmt.Errorf("standin: memory for locks: %w", err)
	}
	set := &settings{
		order: uint32(o.Order), seed: o.Seed, memory: uint64(o.Memory),
		stall: milliseconds(o.Stall, 5*time.Second), limit: milliseconds(o.Limit, time.Minute),
	}
	set.system, set.family, set.width = uint32(cmp.Or(o.System, 15)), int32(cmp.Or(o.Family, 9)), uint32(cmp.Or(o.Width, 32))
	if o.Eager {
		set.eager = 1
	}
	if o.Absent {
		set.absent = 1
	}
	if o.Memory == 0 {
		set.memory = math.MaxInt64
	}
	s.number = p.add(func(source string, old, fast bool) (string, error) {
		return c.Build(ctx, source, emu.BuildOptions{Leader: o.Leader, Lint: o.Lint, Old: old, Fast: fast})
	})
	purego.SyscallN(begin, uintptr(unsafe.Pointer(set)), s.number, p.compile, p.locks)
	return s, nil
}

// milliseconds is a duration, or another if it is 0, of at most some weeks.
func milliseconds(d, usual time.Duration) uint32 {
	if d == 0 {
		d = usual
	}
	return uint32(min(d.Milliseconds(), math.MaxInt32))
}

// loadCopy opens a copy of a library, whose variables nobody else has, and which is
// gone from the disk at once.
func loadCopy(path string) (uintptr, error) {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	from, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	name := filepath.Join(dir, "standin.so")
	to, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return 0, err
	}
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

// Handle is the handle of the open library, for mtl.Load: of the Objective-C runtime and
// of Metal both.
func (s *Standin) Handle() uintptr { return s.handle }

// FailCommandBuffer has one command buffer fail with an NSError, before it does
// anything: the first that begins if after is 0, the second if it is 1.
func (s *Standin) FailCommandBuffer(after int, domain string, code int, text string) {
	d, t := append([]byte(domain), 0), append([]byte(text), 0)
	purego.SyscallN(s.fail, uintptr(after), uintptr(unsafe.Pointer(&d[0])), uintptr(code), uintptr(unsafe.Pointer(&t[0])))
}

// Methods returns the methods of Foundation's and Metal's classes, except those of every
// object: "MTLDevice -newBufferWithLength:options: pww". The letters are the types of the
// result and of the arguments: see types in native/standin.cpp.
func (s *Standin) Methods() []string {
	var all []string
	for i := uintptr(0); ; i++ {
		p, _, _ := purego.SyscallN(s.method, i)
		if p == 0 {
			return all
		}
		all = append(all, text(p))
	}
}

// Report says what has happened so far, or until Close.
func (s *Standin) Report() *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report != nil {
		return s.report
	}
	r := &Report{live: map[string]int{}}
	for i := uintptr(0); ; i++ {
		p, _, _ := purego.SyscallN(s.violation, i)
		if p == 0 {
			break
		}
		r.violations = append(r.violations, text(p))
	}
	for i := uintptr(0); ; i++ {
		name := new(uintptr)
		n, _, _ := purego.SyscallN(s.live, i, uintptr(unsafe.Pointer(name)))
		if *name == 0 {
			break
		}
		if n != 0 {
			r.live[text(*name)] = int(n)
		}
	}
	n, _, _ := purego.SyscallN(s.outside)
	r.noPool = int(n)
	return r
}

// Close frees the stand-in, of which nothing may be used any more, and returns its last
// Report.
func (s *Standin) Close() *Report {
	r := s.Report()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil {
		s.report = r
		purego.SyscallN(s.end)
		if p, err := shared(); err == nil {
			p.remove(s.number)
		}
		_ = purego.Dlclose(s.handle)
	}
	return r
}

// text is a copy of C's string at p.
func text(p uintptr) string {
	q, n := *(*unsafe.Pointer)(unsafe.Pointer(&p)), 0
	for *(*byte)(unsafe.Add(q, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(q), n))
}
