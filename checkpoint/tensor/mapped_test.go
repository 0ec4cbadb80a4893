package tensor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o666))
	m, err := Map(path)
	require.NoError(t, err)
	require.Equal(t, "abc", string(m.Bytes()))
	require.Equal(t, path, m.Path())

	// What is written stays in the process.
	m.Bytes()[1] = 'x'
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "abc", string(text))
	require.NoError(t, m.Close())
	require.EqualError(t, m.Close(), "tensor: the file was closed before")
}

func TestMapNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	m, err := Map(path)
	require.NoError(t, err)
	require.Empty(t, m.Bytes())
	require.NoError(t, m.Close())

	if _, err := Map(t.TempDir()); err == nil || !strings.Contains(err.Error(), "this is a folder, want a file") {
		t.Errorf("error %v", err)
	}
}
