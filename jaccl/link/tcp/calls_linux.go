package tcp

import (
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
