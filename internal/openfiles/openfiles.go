// Package openfiles says what to do where a process may not open another file.
package openfiles

import (
	"fmt"
	"strings"
	"syscall"
)

// Explain returns err with a remedy if it says that a process has too many open files, and
// err itself otherwise. Sockets and pipes are open files, too. The process may be another
// one, whose error came here as text.
func Explain(err error) error {
	if err == nil || !strings.Contains(err.Error(), syscall.EMFILE.Error()) {
		return err
	}
	return fmt.Errorf("%w; the limit on the open files of a process is too low: raise it in the shell that starts the job, such as with ulimit -n 1024", err)
}
