package whole

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder is complete, or nothing is there: also not under another name.
func TestNewFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	wrong := errors.New("wrong")
	fill := func(folder string) error { return os.WriteFile(filepath.Join(folder, "a"), []byte("a"), 0o666) }
	err := NewFolder(path, func(folder string) error {
		require.NoError(t, fill(folder))
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist, "the folder is there before it is complete")
		return wrong
	})
	require.ErrorIs(t, err, wrong)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, NewFolder(path+"/", fill))
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	text, err := os.ReadFile(filepath.Join(path, "a"))
	require.NoError(t, err)
	require.Equal(t, "a", string(text))

	require.ErrorContains(t, NewFolder(path, fill), "this is there already; remove it, or give another name")
	require.Error(t, NewFolder(filepath.Join(dir, "none", "out"), fill))
}
