//go:build unix

package flight

import (
	"os"
	"syscall"
)

// private reports whether a folder belongs to this user and is closed to others.
func private(folder os.FileInfo) bool {
	s, ok := folder.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid() && folder.Mode().Perm()&0o077 == 0
}
