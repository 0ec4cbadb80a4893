//go:build unix

package environ

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A secret that others could exchange is refused, and one that would never come.
func TestSecretOfOthers(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("s", 32)), 0o600))
	link := filepath.Join(top, "link")
	require.NoError(t, os.Symlink(path, link))
	read := func() error {
		_, err := Job{SecretFile: path}.Key("")
		_, through := Job{SecretFile: link}.Key("")
		require.Equal(t, err == nil, through == nil, "%v, and through a link %v", err, through)
		return err
	}
	require.NoError(t, read())
	for _, folder := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(folder, 0o777))
		require.ErrorContains(t, read(), "anybody may write to "+folder+" (-rwxrwxrwx); make a new secret after chmod o-w "+folder)
		require.NoError(t, os.Chmod(folder, 0o777|os.ModeSticky))
		require.NoError(t, read(), "where only owners remove files")
		require.NoError(t, os.Chmod(folder, 0o775))
		require.NoError(t, read())
	}
	if os.Geteuid() == 0 {
		const other = 12345
		for _, of := range []string{path, dir} {
			require.NoError(t, os.Chown(of, other, -1))
			require.ErrorContains(t, read(), of+" belongs to user 12345, and this is user 0; make one of your own")
			require.NoError(t, os.Chown(of, 0, -1))
		}
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	require.ErrorContains(t, read(), "this is a pipe, want a file")
}
