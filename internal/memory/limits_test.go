package memory

import (
	"math"
	"testing"
	"testing/fstest"
)

// What Linux says in its files, with control groups of both versions, in a container and
// without.
func TestLimits(t *testing.T) {
	const info = "MemTotal: 16000 kB\nMemAvailable: 8000 kB\nSwapFree: 1000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  Limit
	}{
		"nothing":     {nil, Limit{math.MaxInt64, ""}},
		"the machine": {map[string]string{"proc/meminfo": info}, Limit{9000 * 1024, "MemAvailable of /proc/meminfo"}},
		"version 2": {map[string]string{"proc/meminfo": info, "proc/self/cgroup": "0::/job/one\n",
			"sys/fs/cgroup/job/one/memory.max": "max\n", "sys/fs/cgroup/job/one/memory.current": "5\n",
			"sys/fs/cgroup/job/memory.max": "1000000\n", "sys/fs/cgroup/job/memory.current": "600000\n", "sys/fs/cgroup/job/memory.stat": "anon 7\ninactive_file 50000\n"},
			Limit{450000, "/sys/fs/cgroup/job/memory.max"}},
		"version 1, in a container": {map[string]string{"proc/meminfo": info, "proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "2000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1500\n", "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 100\n"},
			Limit{600, "/sys/fs/cgroup/memory/memory.limit_in_bytes"}},
		"a limit that is exceeded": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "10", "sys/fs/cgroup/memory.current": "20"},
			Limit{0, "/sys/fs/cgroup/memory.max"}},
		"files that say nothing": {map[string]string{"proc/meminfo": "MemAvailable: many kB\n:", "proc/self/cgroup": "::\n\n0\n4:memory\n"}, Limit{math.MaxInt64, ""}},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := least(limits(root)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if n := addresses(fstest.MapFS{"proc/self/statm": {Data: []byte("3 2 1 0")}}); n <= 0 || n%3 != 0 {
		t.Errorf("3 pages of addresses are %d bytes", n)
	}
	for bytes, want := range map[float64]string{0: "0 B", 10239: "10239 B", 10240: "10.0 KiB", 1000 << 10: "1.0 MiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Format(bytes); got != want {
			t.Errorf("%g bytes are %s, want %s", bytes, got, want)
		}
	}
	if a := Available(); a.Bytes < 1<<20 {
		t.Errorf("%+v, want some", a)
	}
}

// What the process takes grows by what it writes to.
func TestResident(t *testing.T) {
	before := Resident()
	mem := make([]byte, 64<<20)
	for i := range mem {
		mem[i] = byte(i)
	}
	if after := Resident(); before <= 0 || after-before < 48<<20 || mem[5] != 5 {
		t.Errorf("%d bytes before 64 MiB were written, and %d after", before, after)
	}
}
