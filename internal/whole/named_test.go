package whole

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where files need a name, an unfinished file has another name, which goes in the end.
func TestNamed(t *testing.T) {
	none := func(*os.Root) (*os.File, error) { return nil, errors.ErrUnsupported }
	dir := t.TempDir()
	begin := func() *File {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		f, err := createIn(root, "x", none)
		require.NoError(t, err)
		_, err = io.WriteString(f, "new")
		require.NoError(t, err)
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		if len(files) == 0 || files[0].Name()[:3] != ".x." {
			t.Errorf("%v in the folder, want a file .x.…", files)
		}
		return f
	}
	begin().Discard()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	if len(files) > 0 {
		t.Errorf("%v in the folder after Discard", files)
	}
	require.NoError(t, begin().Close())
	files, err = os.ReadDir(dir)
	require.NoError(t, err)
	b, _ := os.ReadFile(filepath.Join(dir, "x"))
	if len(files) != 1 || string(b) != "new" {
		t.Errorf("%v in the folder after Close, and x holds %q", files, b)
	}
}
