//go:build unix && !linux

package launch

import "syscall"

const kernelKills = false

// dieWithParent does nothing: on these systems only the guard kills the ranks.
func dieWithParent(*syscall.SysProcAttr) {}
