package shm

import "golang.org/x/sys/unix"

// machineMemory returns the machine's memory in bytes.
func machineMemory() (int64, error) {
	n, err := unix.SysctlUint64("hw.memsize")
	return int64(n), err
}

// sizeLimit returns the size in bytes of the largest segment that this process may make: a
// file larger than RLIMIT_FSIZE would end the process by a signal.
func sizeLimit() (int64, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &r); err != nil {
		return 0, err
	}
	return int64(min(r.Cur, 1<<62)), nil
}

// excess has nothing to check on darwin: commit writes to a file before the file is used, and
// returns an error if there is no space.
func excess(n int64) error { return nil }
