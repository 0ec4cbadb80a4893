package environ

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const secret = "0123456789abcdef"

func TestKeyGiven(t *testing.T) {
	key, err := Job{Secret: secret}.Key(t.TempDir())
	require.NoError(t, err)
	if key != secret {
		t.Errorf("key %q, want %q", key, secret)
	}
	_, err = Job{Secret: "short"}.Key(t.TempDir())
	require.ErrorContains(t, err, "GOMOE_SECRET: a secret of 5 bytes, want at least 16")

	path := filepath.Join(t.TempDir(), "key")
	_, err = Job{SecretFile: path}.Key(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
	key, err = Job{SecretFile: path}.Key(t.TempDir())
	require.NoError(t, err)
	if key != secret {
		t.Errorf("key %q, want %q", key, secret)
	}
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = Job{SecretFile: path}.Key(t.TempDir())
	require.ErrorContains(t, err, "others may read "+path)
	_, err = Job{SecretFile: filepath.Dir(path)}.Key(t.TempDir())
	require.ErrorContains(t, err, "this is a folder, want a file")
}

// Processes that start at the same time get the same key, which only its owner can read.
func TestKeyMade(t *testing.T) {
	for _, at := range []string{"127.0.0.1:5", "[::1]:5", "localhost:5"} {
		dir := t.TempDir()
		keys := make([]string, 8)
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				var err error
				if keys[i], err = (Job{Coordinator: at}).Key(dir); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, k := range keys {
			if k != keys[0] || len(k) < 2*minSecret {
				t.Errorf("keys %q, want all the same and long", keys)
			}
		}
		path := filepath.Join(dir, "gomoe", "secret")
		info, err := os.Stat(path)
		require.NoError(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		if len(entries) != 1 {
			t.Errorf("%d files are left beside the secret", len(entries)-1)
		}
	}
}

// Key makes no secret if ranks of other machines need it, too.
func TestKeyOfOthers(t *testing.T) {
	for _, at := range []string{"10.0.0.1:5", "host:5", ""} {
		dir := t.TempDir()
		_, err := Job{Coordinator: at}.Key(dir)
		if err == nil || !strings.Contains(err.Error(), "copy it to all of them") || !strings.Contains(err.Error(), "scp -p") {
			t.Errorf("at %q: %v, want what to copy", at, err)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		if len(entries) > 0 {
			t.Errorf("at %q: a file was made", at)
		}
	}
}
