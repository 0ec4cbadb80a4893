package memory

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Resident returns the resident memory of this process in bytes: from Linux or, on other
// systems, the memory that Go has obtained.
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
