package tcp

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are raw system calls, unknown to Go's scheduler: the sockets never block, and a
// call only copies at most `most` bytes. The scheduler would take the processor from a
// call that lasts longer than 20 µs, would have to find another one when the call
// returns, and would wake its monitor every 20 µs.

func read(fd int, b []byte) (int, error) {
	return result(unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))))
}

func write(fd int, b []byte) (int, error) {
	return result(unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))))
}

func readv(fd int, bufs [][]byte) (int, error) {
	var to [pieces]unix.Iovec
	n := vectors(&to, bufs)
	return result(unix.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&to)), uintptr(n)))
}

func writev(fd int, bufs [][]byte) (int, error) {
	var to [pieces]unix.Iovec
	n := vectors(&to, bufs)
	return result(unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&to)), uintptr(n)))
}

// vectors writes bufs, at most pieces of them and none of them empty, into to in the
// kernel's form, returning their number.
func vectors(to *[pieces]unix.Iovec, bufs [][]byte) int {
	for i, b := range bufs {
		to[i].Base = unsafe.SliceData(b)
		to[i].SetLen(len(b))
	}
	return len(bufs)
}

func result(n, _ uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// settled is the shortest time between two looks at the ranks' cores. A look takes less
// than a microsecond, a move about ten.
const settled = 2 * time.Millisecond

// apart moves the thread to another core if a near peer, for which this rank waits, has
// sent from the thread's core. Ranks that wait for each other alternately on one core
// take twice as long, and the kernel's scheduler does not separate them, because one of
// them is always runnable. The higher rank moves. Afterwards the thread may run on all of
// its cores as before.
func (p *poller) apart(active []*peer, now time.Time) {
	if now.Sub(p.looked) < settled {
		return
	}
	p.looked = now
	for _, peer := range active {
		if !peer.near || !peer.receiving() || p.fds[peer.rank] < 0 {
			continue
		}
		cpu, err := unix.GetsockoptInt(p.fds[peer.rank], unix.SOL_SOCKET, unix.SO_INCOMING_CPU)
		if err == nil && cpu >= 0 && cpu == current() {
			leave(cpu)
			return
		}
	}
}

// current returns the core of the thread, or -1.
func current() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}

// leave moves the thread away from a core, if the thread may run on other cores.
func leave(cpu int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || !all.IsSet(cpu) || all.Count() < 2 {
		return
	}
	others := all
	others.Clear(cpu)
	if unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &all)
	}
}
