//go:build unix

package flight_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/flight"
)

// Among the files of others, a record is in a folder that nobody else may enter, and a
// folder that somebody else could have made is refused.
func TestTemporary(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	d := flight.New(flight.About{Size: 1}).Take("x")
	path, err := d.Save(flight.Temporary("a"))
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(temp, "a"))
	require.NoError(t, err)
	if path != filepath.Join(temp, "a", d.Name()) || info.Mode().Perm() != 0o700 {
		t.Errorf("%s is written, in a folder of mode %v", path, info.Mode())
	}
	_, err = d.Save(flight.Temporary("a"))
	require.NoError(t, err, "a second record in the folder")

	mine := filepath.Join(temp, "mine")
	require.NoError(t, os.Mkdir(mine, 0o700))
	require.NoError(t, os.Symlink(mine, filepath.Join(temp, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(temp, "open"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(temp, "open"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(temp, "file"), nil, 0o600))
	names := []string{"link", "open", "file"}
	if os.Geteuid() == 0 {
		require.NoError(t, os.Mkdir(filepath.Join(temp, "theirs"), 0o700))
		require.NoError(t, os.Chown(filepath.Join(temp, "theirs"), 65534, 65534))
		names = append(names, "theirs")
	}
	for _, name := range names {
		if _, err := d.Save(flight.Temporary(name)); err == nil || !strings.Contains(err.Error(), filepath.Join(temp, name)) {
			t.Errorf("%s: error %v, want that the folder is refused", name, err)
		}
	}
	files, err := os.ReadDir(mine)
	require.NoError(t, err)
	if len(files) > 0 {
		t.Errorf("a link was followed: %v", files)
	}
}

// A link in the place of a record is replaced, and what it leads to is left alone.
func TestRecordIsLink(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("s"), 0o600))
	d := flight.New(flight.About{Size: 1}).Take("x")
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, d.Name())))
	_, err := d.Save(flight.Folder{Path: dir})
	require.NoError(t, err)
	info, err := os.Lstat(secret)
	require.NoError(t, err)
	b, err := os.ReadFile(secret)
	require.NoError(t, err)
	if string(b) != "s" || info.Mode().Perm() != 0o600 {
		t.Errorf("the file behind the link holds %q, mode %v", b, info.Mode())
	}
}
