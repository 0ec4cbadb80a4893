//go:build unix

package whole

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder returns when the names in a folder are on the disk. On file systems that do not
// support this, it returns at once without an error.
func syncFolder(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
