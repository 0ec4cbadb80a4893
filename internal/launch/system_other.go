//go:build !linux

package launch

import (
	"errors"
	"os/exec"
	"syscall"
)

func allowedProcessors() ([]int, error) {
	return nil, errors.New("processors can be chosen on Linux only")
}

// startOn is never called, because allowedProcessors fails first.
func startOn(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

const kernelKills = false

// dieWithParent does nothing: on these systems the guard or a job object kills the ranks.
func dieWithParent(*syscall.SysProcAttr) {}
