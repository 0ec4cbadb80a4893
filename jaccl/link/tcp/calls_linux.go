package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The sockets never block, and a call moves at most most bytes, so the scheduler is not
// told of these: to it they are copies of memory. It would take the processor from a
// call of more than 20 µs, look for another one when that returns, and wake its monitor
// every 20 µs for it.

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

// vectors states at most pieces bufs, none of them empty, as the kernel wants them.
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
