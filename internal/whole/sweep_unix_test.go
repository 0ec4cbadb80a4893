//go:build linux || darwin

package whole_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gomoe/gomoe/internal/whole"
)

// What a process that was killed has left goes with the next file or folder that is made there, whatever its name. What another
// process writes stays, and so does what only looks alike.
func TestSweep(t *testing.T) {
	for name, next := range map[string]func(dir string) error{
		"Write": func(dir string) error { return whole.Write(filepath.Join(dir, "x"), say("x")) },
		"NewFolder": func(dir string) error {
			return whole.NewFolder(filepath.Join(dir, "x"), func(string) error { return nil })
		},
		"Temporary": func(dir string) error {
			f, remove, err := whole.Temporary(dir, "x")
			require.NoError(t, err)
			info, err := f.Stat()
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
			require.NoError(t, remove())
			return os.WriteFile(filepath.Join(dir, "x"), nil, 0o600)
		},
		"Scratch": func(dir string) error {
			path, remove, err := whole.Scratch(dir, "x")
			require.NoError(t, err)
			whole.Sweep(dir) // by another process
			require.DirExists(t, path)
			require.NoError(t, remove())
			require.NoDirExists(t, path)
			return os.WriteFile(filepath.Join(dir, "x"), nil, 0o600)
		},
	} {
		dir := t.TempDir()
		const file, folder, written = ".metrics.csv.gomoe-0123456789abcdef", ".model.gomoe-89abcdef01234567", ".trace.gomoe-ffffffffffffffff"
		others := []string{".metrics.csv.0123456789abcdef", ".cache", ".x.gomoe-0123", "x.gomoe-0123456789abcdef"}
		for _, n := range append([]string{file, written}, others...) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, n), nil, 0o600))
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, folder, "below"), 0o700))
		f, err := os.Open(filepath.Join(dir, written))
		require.NoError(t, err)
		require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		require.NoError(t, next(dir), name)
		only(t, dir, slices.Sorted(slices.Values(append(others[:len(others):len(others)], written, "x")))...)
		require.NoError(t, f.Close())
		require.NoError(t, whole.Write(filepath.Join(dir, "y"), say("y")))
		only(t, dir, slices.Sorted(slices.Values(append(others[:len(others):len(others)], "x", "y")))...)
	}
}
