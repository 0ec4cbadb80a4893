//go:build linux && (amd64 || arm64)

package standin

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
)

// Stand-ins that were closed leave no library, no file and no compiler behind.
func TestManyStandins(t *testing.T) {
	c := clangtest.Compiler(t)
	count := func() (maps, files int) {
		text, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		left, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		return strings.Count(string(text), "standin.so"), len(left)
	}
	t.Setenv("TMPDIR", t.TempDir())
	p, err := shared()
	require.NoError(t, err)
	for i := range 100 {
		s, err := Open(context.Background(), c, Options{})
		require.NoError(t, err)
		if i == 0 {
			if maps, _ := count(); maps == 0 {
				t.Fatal("the library is not among the process's maps; look for another name")
			}
		}
		s.Close()
		s.Close()
	}
	maps, files := count()
	if maps != 0 || files != 0 {
		t.Errorf("%d maps of libraries and %d files are left", maps, files)
	}
	if len(p.compilers) != 0 {
		t.Errorf("%d compilers are kept", len(p.compilers))
	}
}
