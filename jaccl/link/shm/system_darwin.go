package shm

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// nap is the time that a rank sleeps between two looks at a word. The first public call
// of darwin waiting until another process changes a word is os_sync_wait_on_address of
// macOS 14.4, which needs the C library.
const nap = 50 * time.Microsecond

// futexWait sleeps until the word differs from seen, or d has passed.
func futexWait(word *atomic.Uint32, seen uint32, d time.Duration) {
	for end := time.Now().Add(d); word.Load() == seen && time.Now().Before(end); time.Sleep(nap) {
	}
}

// futexWake has nothing to do: a rank that sleeps looks at the word by itself.
func futexWake(*atomic.Uint32) {}

// yield lets other threads have the processor.
func yield() { time.Sleep(time.Microsecond) }

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

// create makes a segment of the given size. The segment is a file, because darwin has no
// memory without a name; transport removes the file as soon as all ranks have mapped it.
func create(dir string, size int64) (fd int, path string, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	return createFile(dir, size)
}

// open opens a peer's segment.
func open(a announcement) (int, error) { return openFile(a.Path) }

// commit takes space for n bytes of a segment at offset at, by writing zeros. On a full disk
// the write returns an error, while a later access to a hole in the file would end the process
// by a signal.
func commit(fd int, at, n int64) error {
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		k, err := unix.Pwrite(fd, zeros[:min(n, int64(len(zeros)))], at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if k == 0 {
			return io.ErrShortWrite
		}
		at += int64(k)
		n -= int64(k)
	}
	return nil
}
