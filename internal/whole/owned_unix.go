//go:build linux || darwin

package whole

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// own locks the folder itself, so that nothing is left in it.
func own(folder string) (release func() error, taken bool, err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, true, nil
	}
	return f.Close, false, nil // an error says that the file system has no locks
}
