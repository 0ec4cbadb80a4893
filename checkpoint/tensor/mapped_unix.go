//go:build unix

package tensor

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps all of f. The memory is writable, but writes stay private to this process, so that an accidental
// write neither kills the process nor changes the file.
func mapFile(f *os.File, n int) ([]byte, func() error, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|noReserve)
	if err != nil {
		return nil, nil, err
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}

// drop lets the system reclaim whole pages of a mapping. If it fails, they stay.
func drop(mem []byte) { _ = unix.Madvise(mem, unix.MADV_DONTNEED) }
