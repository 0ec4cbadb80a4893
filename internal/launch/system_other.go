//go:build !linux

package launch

import (
	"errors"
	"os/exec"
)

func allowedProcessors() ([]int, error) {
	return nil, errors.New("processors can be chosen on Linux only")
}

// startOn is never called, because allowedProcessors fails first.
func startOn(cmd *exec.Cmd, _ []int) error { return cmd.Start() }
