package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/wait"
)

// These operations work between processes, unlike the private ones.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps until the word differs from seen, futexWake is called for the word, or d
// has passed. It may return earlier.
func futexWait(word *atomic.Uint32, seen uint32, d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(seen), uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// futexWake wakes all threads, of any process, that sleep in futexWait on the word.
func futexWake(word *atomic.Uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, 1<<30, 0, 0, 0)
}

// yield lets other threads have the processor.
func yield() { wait.Yield() }

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

// machineMemory returns the machine's memory in bytes, including swap.
func machineMemory() (int64, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, err
	}
	return int64((uint64(info.Totalram) + uint64(info.Totalswap)) * uint64(info.Unit)), nil
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

// available returns the number of bytes of memory that can still be taken, and the source
// of that limit: the machine or a control group. The kernel would grant more, and kill
// processes later.
func available() (int64, string) {
	left, whose := int64(1<<62), ""
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		f := numbers(string(b))
		if ram, ok := f["MemAvailable:"]; ok {
			left, whose = (ram+f["SwapFree:"])<<10, "the machine"
		}
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return left, whose
	}
	for line := range strings.Lines(string(b)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for ; ; group = path.Dir(group) {
			if n, ok := groupLeft(path.Join("/sys/fs/cgroup", group)); ok && n < left {
				left, whose = n, "the control group "+group
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	return left, whose
}

// groupLeft returns the number of bytes that a control group may still take; false if it
// has no limit. Pages of the file cache count as free, because the kernel can drop them,
// except pages of shared memory.
func groupLeft(dir string) (int64, bool) {
	read := func(name string) string {
		b, err := os.ReadFile(path.Join(dir, name))
		if err != nil {
			return ""
		}
		return string(b)
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(read("memory.max")), 10, 64)
	if err != nil {
		return 0, false // "max", or no such group
	}
	used, err := strconv.ParseInt(strings.TrimSpace(read("memory.current")), 10, 64)
	if err != nil {
		return 0, false
	}
	stat := numbers(read("memory.stat"))
	return limit - used + max(stat["file"]-stat["shmem"], 0), true
}

// numbers parses lines consisting of a name and a number.
func numbers(s string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			out[f[0]] = n
		}
	}
	return out
}

// excess returns an error if n more bytes of memory cannot be taken.
func excess(n int64) error {
	if left, whose := available(); n > left {
		return fmt.Errorf("%s has %d bytes of memory left", whose, left)
	}
	return nil
}

// seals fix a segment's size for ever, so that memory mapped by a peer cannot be
// truncated.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// step is the amount of memory requested by one system call: if a signal interrupts the
// call, the kernel undoes the whole call.
const step = 64 << 20

// create makes a segment of the given size, taking no memory yet. If dir is empty, the
// segment has no name: the system frees it when the last process that has it open ends,
// and peers open it as a descriptor of this process.
func create(dir string, size int64) (fd int, path string, err error) {
	if dir != "" {
		return createFile(dir, size)
	}
	const noExec = 8 // MFD_NOEXEC_SEAL, of Linux 6.3
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if fd, err = unix.MemfdCreate("gomoe-shm", flags|noExec); errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("gomoe-shm", flags)
	}
	if err != nil {
		return -1, "", fmt.Errorf("memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		return -1, "", errors.Join(fmt.Errorf("%d bytes of memory: %w", size, err), unix.Close(fd))
	}
	return fd, "", nil
}

// open opens a peer's segment.
func open(a announcement) (int, error) {
	if a.Path != "" {
		return openFile(a.Path)
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", a.Pid, a.FD)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w; run all ranks as one user, with the /proc of their own name space of processes", path, err)
	}
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return -1, errors.Join(fmt.Errorf("%s is memory with seals %#x, want %#x", path, got, seals), err, unix.Close(fd))
	}
	return fd, nil
}

// commit takes memory from the system for n bytes of a segment at offset at, so that
// later writes there cannot fail.
func commit(fd int, at, n int64) error {
	for done := int64(0); done < n; {
		err := unix.Fallocate(fd, 0, at+done, min(step, n-done))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			if undone := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n); undone != nil {
				err = errors.Join(err, undone)
			}
			return err
		}
		done += min(step, n-done)
	}
	return nil
}
