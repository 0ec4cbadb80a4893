package mpi

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/internal/quoted"
)

// withoutCache returns the variables that turn off a cache of UCX, over which Open MPI
// and MPICH use InfiniBand. The cache holds the memory that UCX has registered with a
// device. UCX watches the C library to notice freed memory, but Go's runtime calls the
// system itself. With the cache, a device would write to pages that the process no longer
// has, and read old ones. The first variable works in UCX from 1.12 on, the second in
// older versions.
func withoutCache() []variable {
	return []variable{
		{"UCX_RCACHE_ENABLE", "n", []string{"n", "no", "off", "0", "false"}},
		{"UCX_IB_REG_METHODS", "direct", []string{"direct", "odp", "odp,direct", "direct,odp"}},
	}
}

type variable struct {
	name, value string
	also        []string // the values that a user may have set, because they also turn the cache off
}

// refuseCache sets the variables that turn UCX's cache off, in the C library's
// environment, which is separate from package os. MPI's libraries read them while being
// loaded. A variable set by the user is left alone; it is an error if it has another
// value.
func refuseCache(getenv func(string) string) error {
	setenv, err := dynlib.C("setenv")
	if err != nil {
		return fmt.Errorf("mpi: open: the C library: %w", err)
	}
	for _, v := range withoutCache() {
		switch was := getenv(v.name); {
		case was == "":
			name, value := append([]byte(v.name), 0), append([]byte(v.value), 0)
			if rc := call(setenv, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&value[0])), 1); rc != 0 {
				return fmt.Errorf("mpi: open: the C library's setenv of %s returned %d", v.name, rc)
			}
		case !slices.Contains(v.also, strings.ToLower(was)):
			return fmt.Errorf("mpi: open: %s is %s, want %s or nothing: UCX would keep memory registered that Go has given back to the system, and data would be lost; unset it", v.name, quoted.Text(was), quoted.Text(v.value))
		}
	}
	return nil
}
