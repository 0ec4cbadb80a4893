package rdma

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Library is an open verbs library. It holds the addresses of the functions.
type Library struct {
	name string

	deviceList, deviceName, openDevice, freeList, closeDevice uintptr
	allocPD, deallocPD, createCQ, destroyCQ                   uintptr
	createQP, destroyQP, modifyQP                             uintptr
	queryPort, queryGID, regMR, deregMR                       uintptr

	queryDevice uintptr // 0 if the library does not have it; JACCL does not use it

	yield uintptr // sched_yield of the C library
	errno uintptr // the C library's function returning the address of a thread's errno
}

// create calls a verb returning a pointer. If the pointer is nil, the error holds errno.
func (l *Library) create(verb string, fn uintptr, args ...uintptr) (uintptr, error) {
	runtime.LockOSThread() // errno is the thread's
	defer runtime.UnlockOSThread()
	errno := invoke(l.errno)
	*word32(errno, 0) = 0
	if r := invoke(fn, args...); r != 0 {
		return r, nil
	}
	return 0, &refusal{verb, syscall.Errno(*word32(errno, 0))}
}

// do calls a verb returning an errno, 0 for success.
func (l *Library) do(verb string, fn uintptr, args ...uintptr) error {
	r := int32(invoke(fn, args...))
	if r == 0 {
		return nil
	}
	return &refusal{verb, syscall.Errno(max(r, -r))}
}

// candidates returns the possible names of the library on a system, the best first.
func candidates(goos string) []string {
	if goos == "darwin" {
		return []string{"librdma.dylib", "/usr/lib/librdma.dylib"}
	}
	return []string{"libibverbs.so.1"}
}

// OpenLibrary loads the library at path, or the system's library if path is empty.
func OpenLibrary(path string) (*Library, error) {
	names := []string{path}
	remedy := "check JACCL_LIBRDMA"
	if path == "" {
		names = candidates(runtime.GOOS)
		remedy = "install rdma-core (Debian's libibverbs1)"
		if runtime.GOOS == "darwin" {
			remedy = "macOS has it from 26.2 on"
		}
	}
	l := &Library{}
	if err := dynlib.First(names, l.bind); err != nil {
		return nil, fmt.Errorf("rdma: library %s cannot be loaded; %s: %w", names[0], remedy, err)
	}
	return l, nil
}

// bind finds the functions of lib, loaded under the given name, and the functions of the
// C library.
func (l *Library) bind(name string, lib dynlib.Library) (err error) {
	l.name = name
	if missing := lib.Bind([]dynlib.Function{
		{Name: "ibv_get_device_list", To: &l.deviceList}, {Name: "ibv_get_device_name", To: &l.deviceName}, {Name: "ibv_open_device", To: &l.openDevice},
		{Name: "ibv_free_device_list", To: &l.freeList}, {Name: "ibv_close_device", To: &l.closeDevice}, {Name: "ibv_alloc_pd", To: &l.allocPD},
		{Name: "ibv_dealloc_pd", To: &l.deallocPD}, {Name: "ibv_create_cq", To: &l.createCQ}, {Name: "ibv_destroy_cq", To: &l.destroyCQ},
		{Name: "ibv_create_qp", To: &l.createQP}, {Name: "ibv_destroy_qp", To: &l.destroyQP}, {Name: "ibv_modify_qp", To: &l.modifyQP},
		{Name: "ibv_query_port", To: &l.queryPort}, {Name: "ibv_query_gid", To: &l.queryGID}, {Name: "ibv_reg_mr", To: &l.regMR}, {Name: "ibv_dereg_mr", To: &l.deregMR},
	}...); missing != nil {
		return fmt.Errorf("rdma: library %s has no function %s, want a verbs library", name, missing[0])
	}
	if l.queryDevice, err = lib.Symbol("ibv_query_device"); err != nil {
		l.queryDevice = 0
	}
	if l.yield, err = dynlib.C("sched_yield"); err != nil {
		return fmt.Errorf("rdma: the C library has no sched_yield: %w", err)
	}
	if l.errno, err = dynlib.C("__errno_location"); err != nil { // Linux
		if l.errno, err = dynlib.C("__error"); err != nil { // macOS
			return fmt.Errorf("rdma: the C library has no errno: %w", err)
		}
	}
	return nil
}

// invoke calls a C function.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _ := dynlib.Call(fn, args...)
	return r
}

// devices calls f with the library's pointer and the name of every device, until f returns
// true.
func (l *Library) devices(f func(device uintptr, name string) bool) error {
	count, err := NewRegion(8)
	if err != nil {
		return err
	}
	defer count.Close()
	list, err := l.create("ibv_get_device_list", l.deviceList, count.addr)
	if err != nil {
		return err
	}
	defer invoke(l.freeList, list)
	for i := range uintptr(*word32(count.addr, 0)) {
		device := ptrAt(list, 8*i)
		if f(device, text(invoke(l.deviceName, device))) {
			break
		}
	}
	return nil
}

// open opens the named device, returning its context.
func (l *Library) open(name string) (uintptr, error) {
	var names []string
	var ctx uintptr
	var failed error
	found := false
	err := l.devices(func(device uintptr, n string) bool {
		names = append(names, n)
		if found = n == name; found {
			ctx, failed = l.create("ibv_open_device", l.openDevice, device)
		}
		return found
	})
	switch {
	case err != nil:
		return 0, err
	case len(names) == 0:
		return 0, errors.New("no RDMA devices; on a Mac, run rdma_ctl enable in recovery mode and look with ibv_devices")
	case !found:
		return 0, fmt.Errorf("no such device, there are %s; check the file of devices", quoted.List(names))
	}
	return ctx, failed
}

// Region is memory outside of the Go heap. All memory read or written by the library or a
// device is of this kind, because it does not move and its address may be kept.
type Region struct {
	B    []byte
	addr uintptr
}

// WholePages returns n rounded up to whole pages of the system, in bytes; at least one page.
func WholePages(n int) int {
	page := os.Getpagesize() // 16 KiB on Apple silicon
	return max((n+page-1)/page, 1) * page
}

// NewRegion returns a region of at least n bytes, in whole pages. All bytes are 0.
func NewRegion(n int) (*Region, error) {
	b, err := mapMemory(WholePages(n))
	if err != nil {
		return nil, err
	}
	return &Region{b, uintptr(unsafe.Pointer(unsafe.SliceData(b)))}, nil
}

// Close gives the memory back. It may be called twice.
func (r *Region) Close() {
	if r != nil && r.B != nil {
		unmapMemory(r.B) // fails only for memory that is not mapped
		r.B = nil
	}
}

// at returns a pointer to memory outside of the Go heap, off bytes after p.
func at(p, off uintptr) unsafe.Pointer {
	p += off
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}

func byteAt(p, off uintptr) *byte     { return (*byte)(at(p, off)) }
func word16(p, off uintptr) *uint16   { return (*uint16)(at(p, off)) }
func word32(p, off uintptr) *uint32   { return (*uint32)(at(p, off)) }
func word64(p, off uintptr) *uint64   { return (*uint64)(at(p, off)) }
func ptrAt(p, off uintptr) uintptr    { return *(*uintptr)(at(p, off)) }
func bytesAt(p uintptr, n int) []byte { return unsafe.Slice(byteAt(p, 0), n) }

// text returns the zero-terminated string at p, at most 255 bytes of it.
func text(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := 0
	for n < 255 && *byteAt(p, uintptr(n)) != 0 {
		n++
	}
	return string(bytesAt(p, n))
}

// registration is memory that is registered with a device.
type registration struct {
	r      *Region // the region containing the memory
	lo, hi uintptr
	key    uint32
	mr     uintptr
}

// register registers n bytes at addr with the device.
func (a *adapter) register(addr, n uintptr) (mr uintptr, key uint32, err error) {
	mr, err = a.lib.create("ibv_reg_mr", a.lib.regMR, a.pd, addr, n, access)
	if err != nil {
		return 0, 0, err
	}
	return mr, *word32(mr, mrLkey), nil
}

// know does Adapters.Know for one adapter.
func (a *adapter) know(r *Region, span uintptr) error {
	size := uintptr(len(r.B))
	for off := uintptr(0); off < size; off += span {
		n := min(span+uintptr(ClassBytes(classes-1)), size-off)
		mr, key, err := a.register(r.addr+off, n)
		if err != nil {
			return err
		}
		all := append(slices.Clone(*a.known.Load()), registration{r, r.addr + off, r.addr + off + n, key, mr})
		a.known.Store(&all) // a new slice, because an exchange may be reading the old one
	}
	return nil
}

// forget does Adapters.Forget for one adapter.
func (a *adapter) forget(r *Region) {
	of := func(k registration) bool { return k.r == r }
	was := *a.known.Load()
	all := slices.DeleteFunc(slices.Clone(was), of)
	a.known.Store(&all)
	for _, k := range was {
		if of(k) {
			invoke(a.lib.deregMR, k.mr)
		}
	}
}

// Regions returns the number of memory regions of the device in use in addition to the
// slabs.
func (a *adapter) Regions() int { return len(*a.known.Load()) }

// keyOf returns the key of n bytes at p. ok is false if they are not within one
// registration.
func (a *adapter) keyOf(p, n uintptr) (key uint32, ok bool) {
	for _, k := range *a.known.Load() {
		if p >= k.lo && p < k.hi && n <= k.hi-p {
			return k.key, true
		}
	}
	return 0, false
}

// adapter is an open device: a context, a protection domain, and the memory that is
// registered with them. All endpoints of the device share these. Thunderbolt has a device
// for every peer; a machine of a cluster mostly has one device for all peers.
type adapter struct {
	lib     *Library
	name    string
	ctx, pd uintptr
	known   atomic.Pointer[[]registration] // registered memory, except the slabs of endpoints
}

// Adapters holds the open devices of a rank, by name.
type Adapters map[string]*adapter

// open returns the named adapter. It opens the device if it is not open yet.
func (all Adapters) open(lib *Library, name string) (*adapter, error) {
	if a := all[name]; a != nil {
		return a, nil
	}
	a := &adapter{lib: lib, name: name}
	a.known.Store(&[]registration{})
	var err error
	if a.ctx, err = lib.open(name); err != nil {
		return nil, err
	}
	if a.pd, err = lib.create("ibv_alloc_pd", lib.allocPD, a.ctx); err != nil {
		a.close()
		return nil, err
	}
	all[name] = a
	return a, nil
}

// Know registers a region with all adapters. The region is registered in pieces beginning
// span bytes apart. Each piece is longer than span by the longest message, so that every
// message is within one piece. After an error the caller must call Forget.
func (all Adapters) Know(r *Region, span uintptr) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := all[name].know(r, span); err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
	}
	return nil
}

// Forget undoes Know, even if Know has failed halfway.
func (all Adapters) Forget(r *Region) {
	for _, a := range all {
		a.forget(r)
	}
}

// Close closes all adapters. Their endpoints must be closed before.
func (all Adapters) Close() {
	for _, a := range all {
		a.close()
	}
	clear(all)
}

// close releases the adapter's objects. Each object is released before the objects that it
// uses.
func (a *adapter) close() {
	for _, k := range *a.known.Load() {
		invoke(a.lib.deregMR, k.mr)
	}
	if a.pd != 0 {
		invoke(a.lib.deallocPD, a.pd)
	}
	if a.ctx != 0 {
		invoke(a.lib.closeDevice, a.ctx)
	}
}
