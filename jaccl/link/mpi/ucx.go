package mpi

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// UCX, over which Open MPI and MPICH use InfiniBand, keeps a cache of the memory that it has
// registered with a device. It learns that memory is gone by watching the C library, and not
// from Go's runtime, which asks the system itself. A device would then write to pages that the
// process does not have any more, and read old ones. These variables turn the cache off, the
// first in UCX from 1.12 on, the second in older versions.
func withoutCache() []variable {
	return []variable{
		{"UCX_RCACHE_ENABLE", "n", []string{"n", "no", "off", "0", "false"}},
		{"UCX_IB_REG_METHODS", "direct", []string{"direct", "odp", "odp,direct", "direct,odp"}},
	}
}

type variable struct {
	name, value string
	also        []string // values of a user that say the same
}

// refuseCache sets the variables that turn UCX's cache off, for the C library, whose
// environment is not that of package os. MPI's libraries read them when they are loaded. A
// variable that the user has set is left alone, and an error if it says something else.
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
			return fmt.Errorf("mpi: open: %s is %q, want %q or nothing: UCX would keep memory registered that Go has given back to the system, and data would be lost; unset it", v.name, was, v.value)
		}
	}
	return nil
}
