package shm

import "golang.org/x/sys/unix"

// machineMemory is how many bytes of memory the machine has.
func machineMemory() (int64, error) {
	n, err := unix.SysctlUint64("hw.memsize")
	return int64(n), err
}

// sizeLimit is the largest segment that this process may make: a file past
// RLIMIT_FSIZE would end it by a signal.
func sizeLimit() (int64, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &r); err != nil {
		return 0, err
	}
	return int64(min(r.Cur, 1<<62)), nil
}

// excess has nothing to check on darwin: files are written to before they are used, which
// is an error if there is no space.
func excess(n int64) error { return nil }
