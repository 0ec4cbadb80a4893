package shm

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
