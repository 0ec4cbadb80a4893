package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// A folder of the hub's cache is the snapshot that refs/main names.
func TestSnapshot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "models--org--name")
	for _, name := range []string{"a1", "b2"} {
		folder := filepath.Join(dir, "snapshots", name)
		require.NoError(t, os.MkdirAll(folder, 0o777))
		require.NoError(t, safetensors.Write(filepath.Join(folder, safetensors.FileName), nil, []tensor.Source{tensor.Of(name, array.New(graph.T(graph.F32, 1)))}))
		require.NoError(t, os.WriteFile(filepath.Join(folder, ConfigName), []byte(`{"model_type": "`+name+`"}`), 0o666))
	}
	refs := filepath.Join(dir, "refs", "main")
	require.NoError(t, os.MkdirAll(filepath.Dir(refs), 0o777))
	fails := func(want string) {
		t.Helper()
		if c, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
			if err == nil {
				c.Close()
			}
		}
	}
	fails("2 snapshots, and no refs/main says which one to take")
	require.NoError(t, os.WriteFile(refs, []byte("b2\n"), 0o666))
	c, err := Open(dir)
	require.NoError(t, err)
	require.Equal(t, "b2", c.Config.Architecture)
	require.Equal(t, filepath.Join(dir, "snapshots", "b2"), c.Path)
	require.NoError(t, c.Close())
	for _, name := range []string{"c3", "../..", ""} {
		require.NoError(t, os.WriteFile(refs, []byte(name), 0o666))
		fails("which is not in ")
	}
	require.NoError(t, os.Remove(refs))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "snapshots", "a1")))
	c, err = Open(dir)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
