//go:build unix

package environ

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// owned returns an error if a file or folder is another user's than this one or the system's.
func owned(path string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d; make one of your own", path, stat.Uid, os.Geteuid())
	}
	return nil
}
