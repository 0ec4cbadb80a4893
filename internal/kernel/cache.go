package kernel

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// SecondLevel returns the size in bytes of the second-level cache of the first processor,
// as reported by Linux, and 0 if unknown.
func SecondLevel() int { return secondLevel(os.DirFS("/sys/devices/system/cpu/cpu0/cache")) }

// secondLevel is SecondLevel for a folder like Linux's, with a folder for each cache.
func secondLevel(caches fs.FS) int {
	folders, _ := fs.Glob(caches, "index*")
	for _, folder := range folders {
		read := func(name string) string {
			b, _ := fs.ReadFile(caches, path.Join(folder, name))
			return strings.TrimSpace(string(b))
		}
		if read("level") != "2" {
			continue
		}
		size := read("size")
		unit := 1
		switch {
		case strings.HasSuffix(size, "K"):
			unit = 1 << 10
		case strings.HasSuffix(size, "M"):
			unit = 1 << 20
		}
		if n, err := strconv.Atoi(strings.TrimRight(size, "KM")); err == nil && n > 0 {
			return n * unit
		}
	}
	return 0
}
