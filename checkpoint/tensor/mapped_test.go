package tensor

import (
	"os"
	"path/filepath"
	"runtime"
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

// A pointer that git-lfs has not replaced by its file says so.
func TestMapPointer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n"), 0o666))
	if _, err := Map(path); err == nil || !strings.Contains(err.Error(), "this is a git-lfs pointer, which stands for the file; fetch the file with git lfs pull") {
		t.Errorf("error %v", err)
	}
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

// Bytes that were dropped are those of the file when they are used again. Only whole pages within the part are dropped.
func TestDrop(t *testing.T) {
	path, page := filepath.Join(t.TempDir(), "a"), os.Getpagesize()
	text := make([]byte, 5*page+100)
	for i := range text {
		text[i] = byte(i / page)
	}
	require.NoError(t, os.WriteFile(path, text, 0o666))
	m, err := Map(path)
	require.NoError(t, err)
	for page := range 6 { // what is written stays in memory until it is dropped
		m.Bytes()[page*os.Getpagesize()] = 99
	}
	for _, part := range [][]byte{nil, {1}, make([]byte, 3*page), m.Bytes()[page : page+10]} {
		m.Drop(part)
		require.EqualValues(t, 99, m.Bytes()[page])
	}
	m.Drop(m.Bytes()[page+1 : 4*page-1]) // pages 2 and no more
	m.Drop(m.Bytes()[5*page:])
	if runtime.GOOS == "linux" {
		for i, want := range []byte{99, 99, 2, 99, 99, 5} {
			require.Equal(t, want, m.Bytes()[i*page], i)
		}
	}
	require.NoError(t, m.Close())
	m.Drop(text) // nothing is left
}
