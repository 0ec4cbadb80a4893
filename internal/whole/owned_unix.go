//go:build linux || darwin

package whole

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// own locks the folder itself, so that no file is left in it.
func own(folder string) (release func() error, taken bool, err error) {
	f, err := openFolder(folder)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, true, nil
	}
	return f.Close, false, nil // it is an error if the file system has no locks
}

// openFolder opens a folder, to lock it.
func openFolder(path string) (*os.File, error) { return os.Open(path) }

// lock locks a file written by this process. On file systems without locks it has no
// effect.
func lock(f *os.File) { unix.Flock(int(f.Fd()), unix.LOCK_EX) }

// tryLock reports whether no other process writes a file.
func tryLock(f *os.File) bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
