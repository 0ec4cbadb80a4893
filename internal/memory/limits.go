package memory

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Limit is a number of bytes, and the origin of the limit.
type Limit struct {
	Bytes int64
	By    string // "" if no limit is known
}

// unlimited returns a limit that is never exceeded.
func unlimited() Limit { return Limit{Bytes: math.MaxInt64} }

// Format returns a number of bytes as text, exact below 10 KiB: 512 B, 8192 B, 12.5 KiB,
// 3.0 GiB.
func Format[N ~int64 | ~float64](bytes N) string {
	if bytes < 10<<10 {
		return fmt.Sprintf("%d B", int64(bytes))
	}
	x, unit := float64(bytes)/1024, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB", "PiB", "EiB"} {
		if x < 1000 {
			break
		}
		x, unit = x/1024, next
	}
	return fmt.Sprintf("%.1f %s", x, unit)
}

// least returns the smallest limit. A limit below 0 counts as 0.
func least(all []Limit) Limit {
	l := unlimited()
	for _, m := range all {
		if m.Bytes < l.Bytes {
			l = Limit{max(m.Bytes, 0), m.By}
		}
	}
	return l
}

// limits returns the limits of the machine and of the process's control groups, read from
// the files of Linux below root.
func limits(root fs.FS) []Limit {
	var all []Limit
	info := fields(root, "proc/meminfo")
	if free, ok := info["MemAvailable:"]; ok {
		all = append(all, Limit{free*1024 + info["SwapFree:"]*1024, "MemAvailable of /proc/meminfo"})
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // missing if there are none
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		kinds, group, _ := strings.Cut(rest, ":")
		switch kinds {
		case "":
			all = append(all, grouped(root, "sys/fs/cgroup", group, "memory.max", "memory.current", "inactive_file")...)
		case "memory":
			all = append(all, grouped(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")...)
		}
	}
	return all
}

// grouped returns the rest that a control group and the groups around it leave. Cached
// files count as used there, and are dropped when memory is needed. In a container the
// process's group is often the mount's root, under a name that does not exist there.
func grouped(root fs.FS, mount, group, limit, usage, cached string) []Limit {
	var all []Limit
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		at := path.Join(mount, dir)
		most, ok := number(root, path.Join(at, limit))
		used, ok2 := number(root, path.Join(at, usage))
		if ok && ok2 {
			cache := fields(root, path.Join(at, "memory.stat"))[cached]
			all = append(all, Limit{most - used + cache, "/" + path.Join(at, limit)})
		}
		if dir == "/" {
			return all
		}
	}
}

// addresses returns the bytes of address space in use by the process.
func addresses(root fs.FS) int64 {
	b, _ := fs.ReadFile(root, "proc/self/statm") // 0 if there is none
	first, _, _ := strings.Cut(string(b), " ")
	pages, _ := strconv.ParseInt(first, 10, 64)
	return pages * int64(os.Getpagesize())
}

// number reads a file with one number. It returns false if the file cannot be read, or
// has the word max, meaning no limit.
func number(root fs.FS, name string) (int64, bool) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// fields reads a file with a name and a number on each line.
func fields(root fs.FS, name string) map[string]int64 {
	b, _ := fs.ReadFile(root, name) // nothing if there is none
	m := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		if words := strings.Fields(line); len(words) >= 2 {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				m[words[0]] = n
			}
		}
	}
	return m
}
