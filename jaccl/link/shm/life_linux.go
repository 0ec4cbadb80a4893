package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// startOf returns the start time of a process, in clock ticks since boot, and whether it
// runs. A process that has ended does not run, even if it has not been waited for yet.
// Source: proc_pid_stat(5), fields 3 and 22.
func startOf(pid int) (start uint64, running bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	// The program's name stands in parentheses and may itself contain parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, false, fmt.Errorf("/proc/%d/stat has %d fields after the name, want 20", pid, len(fields))
	}
	if start, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return 0, false, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	state := fields[0][0]
	return start, state != 'Z' && state != 'X', nil
}
