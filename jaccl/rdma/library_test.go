package rdma

import (
	"os"
	"testing"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

func TestMain(m *testing.M) { os.Exit(rdmatest.Main(m)) }

// A library that is not there, or is no verbs library, is an error that says what to do.
func TestLibraryErrors(t *testing.T) {
	rdmatest.Standin(t, "")
	_, err := OpenLibrary("/nowhere/librdma.dylib")
	rdmatest.Contains(t, err, "rdma: library /nowhere/librdma.dylib cannot be loaded; check JACCL_LIBRDMA", "/nowhere/librdma.dylib")
	libc := "libc.so.6"
	if _, err := dynlib.Open(libc); err != nil {
		libc = "/usr/lib/libSystem.B.dylib"
	}
	_, err = OpenLibrary(libc)
	rdmatest.Contains(t, err, "has no function ibv_get_device_list, want a verbs library")
}
