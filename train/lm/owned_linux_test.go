package lm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// A run that is refused because another one writes to the folder writes nothing, and no trace either.
func TestOwned(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	args, out := tiny(t, "-steps", "1", "-trace", trace)
	require.NoError(t, whole.Folder(out))
	release, err := whole.Own(out)
	require.NoError(t, err)
	_, err = execute(t, args...)
	require.EqualError(t, err, "-out: another run writes to "+out+"; wait until it ends, or give another folder")
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoFileExists(t, trace)
	require.NoError(t, release())
	_, err = execute(t, args...)
	require.NoError(t, err)
}
