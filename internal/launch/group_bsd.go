//go:build unix && !linux

package launch

import "syscall"

// dieWithParent does nothing: on these systems only the guard kills the ranks.
func dieWithParent(*syscall.SysProcAttr) {}
