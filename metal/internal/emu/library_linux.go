//go:build linux && (amd64 || arm64)

package emu

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Library is a loaded shared object of kernels. It is safe for concurrent
// use, but only one run at a time uses a library that has function constants.
type Library struct {
	handle    uintptr
	kernels   []Kernel
	entries   map[string]uintptr
	constants map[int]constant
	busy      *uint32 // 1 while a run is reading the constants; shared with other handles of the same object
	calls     calls

	mu      sync.Mutex
	free    []uintptr // idle workers
	spare   []*Buffer // one page each, for bindings of bytes; mapping memory takes longer than a small launch
	closed  bool
	running sync.WaitGroup
}

// constant is a function constant's memory in the library.
type constant struct {
	name  string
	value []byte
}

// calls are the addresses of a library's functions.
type calls struct {
	workerNew, workerFree, workerErr, workerFault, workerStop, workerStats, run uintptr
}

// Open loads the shared object at a path returned by Build. The runtime, shared by all libraries,
// stays in the process; Close frees everything else.
func Open(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("emu: loading kernels: %w", err)
	}
	l := &Library{handle: handle, entries: map[string]uintptr{}, constants: map[int]constant{}}
	var kernels, constants, busy uintptr
	for name, to := range map[string]*uintptr{
		"msl_kernels": &kernels, "msl_fcs": &constants, "msl_fcs_busy": &busy, "msl_run": &l.calls.run,
		"msl_worker_new": &l.calls.workerNew, "msl_worker_free": &l.calls.workerFree, "msl_worker_err": &l.calls.workerErr,
		"msl_worker_fault": &l.calls.workerFault, "msl_worker_stop": &l.calls.workerStop, "msl_worker_stats": &l.calls.workerStats,
	} {
		if *to, err = purego.Dlsym(handle, name); err != nil {
			return nil, errors.Join(fmt.Errorf("emu: %s is no library of kernels: %w", path, err), purego.Dlclose(handle))
		}
	}
	l.busy = (*uint32)(pointer(busy))
	type kernel struct {
		name unsafe.Pointer
		fn   uintptr
		args unsafe.Pointer
	}
	for p := (*kernel)(pointer(kernels)); p.name != nil; p = (*kernel)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		k := parseKernel(text(p.name), text(p.args))
		l.kernels = append(l.kernels, k)
		l.entries[k.Name] = p.fn
	}
	type fc struct {
		name  unsafe.Pointer
		index int32
		size  uint32
		value unsafe.Pointer
	}
	for p := (*fc)(pointer(constants)); p.name != nil; p = (*fc)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		l.constants[int(p.index)] = constant{text(p.name), unsafe.Slice((*byte)(p.value), p.size)}
	}
	return l, nil
}

// Kernels returns the library's kernels, in the order of the source.
func (l *Library) Kernels() []Kernel { return l.kernels }

// kernel returns the kernel of that name.
func (l *Library) kernel(name string) (Kernel, error) {
	for _, k := range l.kernels {
		if k.Name == name {
			return k, nil
		}
	}
	var names []string
	for _, k := range l.kernels {
		names = append(names, k.Name)
	}
	return Kernel{}, fmt.Errorf("no such kernel; there are %s", strings.Join(names, ", "))
}

// Close waits for runs to end, frees the workers and unloads the library. A second Close does
// nothing.
func (l *Library) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.free {
		purego.SyscallN(l.calls.workerFree, w)
	}
	l.free = nil
	var errs []error
	for _, b := range l.spare {
		errs = append(errs, b.Close())
	}
	l.spare = nil
	return errors.Join(append(errs, purego.Dlclose(l.handle))...)
}

// Stats counts the operations of a library's workers.
type Stats struct{ Switches, Barriers, SimdOps, Threads uint64 }

// Stats returns the sum over all idle workers.
func (l *Library) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum Stats
	for _, w := range l.free {
		s := new(Stats)
		purego.SyscallN(l.calls.workerStats, w, uintptr(unsafe.Pointer(s)))
		sum.Switches += s.Switches
		sum.Barriers += s.Barriers
		sum.SimdOps += s.SimdOps
		sum.Threads += s.Threads
		runtime.KeepAlive(s)
	}
	return sum
}

// take returns n workers, making new ones as needed. The caller must hand them back to give.
func (l *Library) take(n int) ([]uintptr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the library is closed")
	}
	for len(l.free) < n {
		w, _, _ := purego.SyscallN(l.calls.workerNew)
		if w == 0 {
			return nil, errors.New("no memory for a threadgroup")
		}
		l.free = append(l.free, w)
	}
	taken := append([]uintptr(nil), l.free[len(l.free)-n:]...)
	l.free = l.free[:len(l.free)-n]
	l.running.Add(1)
	return taken, nil
}

func (l *Library) give(workers []uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, workers...)
	l.running.Done()
}

// bufferOf returns a buffer with a copy of data, which has at most maxBytes bytes. The
// caller must hand the buffer back to keep.
func (l *Library) bufferOf(data []byte) (*Buffer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.spare) - 1; last >= 0 && len(data) > 0 {
		b := l.spare[last]
		l.spare = l.spare[:last]
		b.reset(len(data))
		copy(b.data, data)
		return b, nil
	}
	return NewBufferOf(data)
}

// keep takes back the buffers of a completed launch.
func (l *Library) keep(buffers []*Buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range buffers {
		if l.closed || len(b.data) == 0 { // an empty buffer has no page
			b.Close() // an error does not matter: the memory belonged to this launch only
			continue
		}
		l.spare = append(l.spare, b)
	}
}

// parseKernel returns a kernel with the arguments described by args; abi.h defines the text.
func parseKernel(name, args string) Kernel {
	k := Kernel{Name: name, MaxThreads: maxThreads}
	for clause := range strings.SplitSeq(args, ";") {
		what, rest, ok := strings.Cut(clause, ":")
		if !ok {
			continue
		}
		a := Argument{Type: rest}
		if i := strings.LastIndexByte(rest, ' '); i >= 0 {
			a.Type, a.Name = rest[:i], rest[i+1:]
		}
		if n, found := strings.CutPrefix(what, "buf"); found {
			a.Index, _ = strconv.Atoi(n) // written by this module
			k.Buffers = append(k.Buffers, a)
		} else if n, found := strings.CutPrefix(what, "tgmem"); found {
			a.Index, _ = strconv.Atoi(n)
			k.Memory = append(k.Memory, a)
		} else if what == "threads" {
			k.MaxThreads, _ = strconv.Atoi(rest)
		}
	}
	return k
}

// pointer converts an address in a library to a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// text returns a copy of the C string at p.
func text(p unsafe.Pointer) string {
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
