package shm

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// create makes a segment of the given size. The segment is a file, because darwin has no
// memory without a name; transport removes the file as soon as all ranks have mapped it.
func create(dir string, size int64) (fd int, path string, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	return createFile(dir, size)
}

// open opens a peer's segment.
func open(a announcement) (int, error) { return openFile(a.Path) }

// commit takes space for n bytes of a segment at offset at, by writing zeros. On a full disk
// the write returns an error, while a later access to a hole in the file would end the process
// by a signal.
func commit(fd int, at, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		k, err := unix.Pwrite(fd, zeros[:min(n, int64(len(zeros)))], at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if k == 0 {
			return io.ErrShortWrite
		}
		at += int64(k)
		n -= int64(k)
	}
	return nil
}
