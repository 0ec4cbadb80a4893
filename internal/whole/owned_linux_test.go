package whole_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// A folder has one owner at a time, and is as it was afterwards.
func TestOwn(t *testing.T) {
	folder := t.TempDir()
	release, err := whole.Own(folder)
	require.NoError(t, err)
	_, err = whole.Own(folder)
	require.EqualError(t, err, "another run writes to "+folder+"; wait until it ends, or give another folder")
	other, err := whole.Own(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, other())
	require.NoError(t, release())
	release, err = whole.Own(folder)
	require.NoError(t, err)
	require.NoError(t, release())
	_, err = whole.Own(filepath.Join(folder, "none"))
	require.ErrorContains(t, err, "no such file")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}
