//go:build unix

package tensor

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps all of f. The memory may be written, and what is written stays in this
// process, so that a write by mistake neither ends the process nor changes the file.
func mapFile(f *os.File, n int) ([]byte, func() error, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|noReserve)
	if err != nil {
		return nil, nil, err
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}

// drop has the system take back whole pages of a mapping. An error means that they stay.
func drop(mem []byte) { _ = unix.Madvise(mem, unix.MADV_DONTNEED) }
