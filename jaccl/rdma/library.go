package rdma

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"

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
