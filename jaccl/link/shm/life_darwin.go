package shm

import (
	"errors"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h.
const zombie = 5

// startOf returns the start time of a process, in microseconds since 1970, and whether it
// runs. A process that has ended does not run, even if it has not been waited for yet.
func startOf(pid int) (start uint64, running bool, err error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) { // for no such process the kernel's answer is empty, which is EIO
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	t := info.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec), info.Proc.P_stat != zombie, nil
}
