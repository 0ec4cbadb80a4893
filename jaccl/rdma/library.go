package rdma

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// library is an open verbs library: the addresses of its functions.
type Library struct {
	name string

	deviceList, deviceName, openDevice, freeList, closeDevice uintptr
	allocPD, deallocPD, createCQ, destroyCQ                   uintptr
	createQP, destroyQP, modifyQP                             uintptr
	queryPort, queryGID, regMR, deregMR                       uintptr

	yield uintptr // sched_yield of the C library, 0 if there is none
	errno uintptr // where the C library says that a thread's errno is
}

// create calls a verb that returns a pointer, and errno if that is nil.
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

// do calls a verb that returns an errno.
func (l *Library) do(verb string, fn uintptr, args ...uintptr) error {
	r := int32(invoke(fn, args...))
	if r == 0 {
		return nil
	}
	return &refusal{verb, syscall.Errno(max(r, -r))}
}

// candidates are the names under which a system has the library, best first.
func candidates(goos string) []string {
	if goos == "darwin" {
		return []string{"librdma.dylib", "/usr/lib/librdma.dylib"}
	}
	return []string{"libibverbs.so.1"}
}

// openLibrary loads the library of that path, or the system's if path is empty.
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
	var failures []error
	for _, name := range names {
		handle, err := load(name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		l := &Library{name: name, yield: yielder()}
		if err := l.resolve(handle); err != nil {
			return nil, err
		}
		if l.errno, err = errnoOf(); err != nil {
			return nil, fmt.Errorf("rdma: the C library has no errno: %w", err)
		}
		return l, nil
	}
	return nil, fmt.Errorf("rdma: library %s can not be loaded; %s: %w", names[0], remedy, errors.Join(failures...))
}

func (l *Library) resolve(handle uintptr) error {
	for _, s := range []struct {
		name string
		to   *uintptr
	}{
		{"ibv_get_device_list", &l.deviceList}, {"ibv_get_device_name", &l.deviceName}, {"ibv_open_device", &l.openDevice},
		{"ibv_free_device_list", &l.freeList}, {"ibv_close_device", &l.closeDevice}, {"ibv_alloc_pd", &l.allocPD},
		{"ibv_dealloc_pd", &l.deallocPD}, {"ibv_create_cq", &l.createCQ}, {"ibv_destroy_cq", &l.destroyCQ},
		{"ibv_create_qp", &l.createQP}, {"ibv_destroy_qp", &l.destroyQP}, {"ibv_modify_qp", &l.modifyQP},
		{"ibv_query_port", &l.queryPort}, {"ibv_query_gid", &l.queryGID}, {"ibv_reg_mr", &l.regMR}, {"ibv_dereg_mr", &l.deregMR},
	} {
		address, err := symbol(handle, s.name)
		if err != nil {
			return fmt.Errorf("rdma: library %s has no function %s, want a verbs library: %w", l.name, s.name, err)
		}
		*s.to = address
	}
	return nil
}

// devices calls f with every device, as the library's pointer and by name, until it
// returns true.
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

// open returns a context of the device of that name.
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
		return 0, fmt.Errorf("no such device, there are %q; check the file of devices", names)
	}
	return ctx, failed
}
