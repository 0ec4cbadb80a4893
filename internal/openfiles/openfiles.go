// Package openfiles explains the limit on a process's open files.
package openfiles

import (
	"fmt"
	"strings"
	"syscall"
)

// Explain returns err with a remedy if it reports too many open files, and err itself
// otherwise. Sockets and pipes are open files as well. The error may come from another
// process as text.
func Explain(err error) error {
	if err == nil || !strings.Contains(err.Error(), syscall.EMFILE.Error()) {
		return err
	}
	return fmt.Errorf("%w; the limit on the open files of a process is too low: raise it in the shell that starts the job, such as with ulimit -n 1024", err)
}
