package launch

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelKills tells that dieWithParent has an effect.
const kernelKills = true

// dieWithParent makes the kernel kill a process when the thread that started it
// ends. Run keeps its thread until all ranks have ended.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// allowedProcessors returns the processors on which this process may run.
func allowedProcessors() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("the processors of this process: %w", err)
	}
	var out []int
	for n := range len(set) * 64 {
		if set.IsSet(n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// startOn starts a command on the given processors only. A new process inherits the
// processors of the thread starting it.
func startOn(cmd *exec.Cmd, processors []int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		return err
	}
	for _, n := range processors {
		set.Set(n)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("processors %v: %w", processors, err)
	}
	err := cmd.Start()
	if e := unix.SchedSetaffinity(0, &was); e != nil && err == nil {
		err = fmt.Errorf("the launcher's own processors: %w", e)
	}
	return err
}
