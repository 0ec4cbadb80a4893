package memory

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Resident returns how many bytes this process takes, as Linux says, or, on other systems, what Go has taken for it.
func Resident() int64 {
	b, _ := fs.ReadFile(os.DirFS("/"), "proc/self/statm")
	if words := strings.Fields(string(b)); len(words) > 1 {
		if pages, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			return pages * int64(os.Getpagesize())
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
