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

	"github.com/gomoe/gomoe/metal/counts"
	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Standin is one stand-in. Its objects and its Report are separate from all others in the process.
// Several goroutines may call its methods at once, except Close.
type Standin struct {
	handle uintptr
	number uintptr // its number in the process

	violation, method, live, outside, fail, counts, end uintptr

	mu     sync.Mutex
	report *Report       // the last Report; nil until Close
	done   counts.Device // the last Counts
}

// settings has the layout of Settings in native/object.h.
type settings struct {
	order, eager, absent, stall, limit uint32
	system, width                      uint32
	family                             int32
	seed, memory                       uint64
	count                              uint32
}

// Open builds the stand-in with compiler c, or takes it from c's cache, and opens it. While it is
// open, c also compiles its sources, until ctx ends.
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
		"standin_violation": &s.violation, "standin_method": &s.method, "standin_live": &s.live, "standin_outside_pools": &s.outside, "standin_counts": &s.counts,
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
	if o.Count {
		set.count = 1
	}
	if o.Absent {
		set.absent = 1
	}
	if o.Memory == 0 {
		set.memory = math.MaxInt64
	}
	s.number = p.add(func(source string, language uintptr, fast bool) (string, error) {
		if o.Edit != nil {
			source = o.Edit(source)
		}
		return c.Build(ctx, source, emu.BuildOptions{Leader: o.Leader && !o.Count, Lint: o.Lint, Old: language < 3<<16+2, Tensors: language >= 4<<16, Fast: fast, Count: o.Count})
	})
	purego.SyscallN(begin, uintptr(unsafe.Pointer(set)), s.number, p.compile, p.locks)
	return s, nil
}

// milliseconds converts d, or usual if d is 0, capping the result at some weeks.
func milliseconds(d, usual time.Duration) uint32 {
	if d == 0 {
		d = usual
	}
	return uint32(min(d.Milliseconds(), math.MaxInt32))
}

// loadCopy opens a copy of a library, giving it variables of its own. The copy is removed from the
// disk immediately.
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

// Handle returns the handle of the open library, which is both the Objective-C runtime and
// Metal for mtl.Load.
func (s *Standin) Handle() uintptr { return s.handle }

// FailCommandBuffer makes one command buffer fail with an NSError before doing anything: the first
// command buffer starting if after is 0, the second if after is 1.
func (s *Standin) FailCommandBuffer(after int, domain string, code int, text string) {
	d, t := append([]byte(domain), 0), append([]byte(text), 0)
	purego.SyscallN(s.fail, uintptr(after), uintptr(unsafe.Pointer(&d[0])), uintptr(code), uintptr(unsafe.Pointer(&t[0])))
}

// Methods returns the methods of Foundation's and Metal's classes, except the methods common to all
// objects: "MTLDevice -newBufferWithLength:options: pww". The letters are the types of the result
// and of the arguments: see types in native/standin.cpp.
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

// Report returns the events so far, or up to Close if the stand-in is closed.
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

// Counts returns the work so far, or up to Close if the stand-in is closed.
func (s *Standin) Counts() counts.Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil {
		s.done = s.countsNow()
	}
	return s.done
}

func (s *Standin) countsNow() counts.Device {
	n := new([24]uint64) // one per field
	purego.SyscallN(s.counts, uintptr(unsafe.Pointer(n)))
	at := 0
	next := func() int64 { at++; return int64(n[at-1]) }
	c := counts.Device{Dispatches: next(), Barriers: next(), Commits: next(), Waits: next(), DebugGroups: next()}
	for _, t := range []*counts.Traffic{&c.Kernels.Device, &c.Kernels.Constant} {
		*t = counts.Traffic{Loaded: next(), Read: next(), Once: next(), Written: next()}
	}
	k := &c.Kernels
	k.Threadgroup.Loaded, k.Threadgroup.Written = next(), next()
	k.Tables, k.Products16, k.Products32, k.ProductsTensor, k.Operations, k.SIMDOperations, k.Barriers, k.Threadgroups = next(), next(), next(), next(), next(), next(), next(), next()
	k.Dispatches, c.NotResident = c.Dispatches, next()
	return c
}

// Close frees the stand-in and returns its last Report. Nothing of the stand-in may be used
// afterwards, except Report. Close may be called twice.
func (s *Standin) Close() *Report {
	r, done := s.Report(), s.Counts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil {
		s.report, s.done = r, done
		purego.SyscallN(s.end)
		if p, err := shared(); err == nil {
			p.remove(s.number)
		}
		_ = purego.Dlclose(s.handle)
	}
	return r
}

// text returns a copy of the C string at p.
func text(p uintptr) string {
	q, n := *(*unsafe.Pointer)(unsafe.Pointer(&p)), 0
	for *(*byte)(unsafe.Add(q, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(q), n))
}
