package tensor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tensors that follow each other in one file are one piece; in another order, with something between them, or of two files
// they are not.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("0123456789"), 0o666))
	m, err := Map(path)
	require.NoError(t, err)
	defer m.Close()
	part := func(file string, from, to int) Tensor {
		return Tensor{File: file, Offset: int64(from), Mem: m.Bytes()[from:to:to]}
	}
	a, b, c := part(path, 1, 4), part(path, 4, 6), part(path, 6, 10)
	for want, ts := range map[string][]Tensor{"123456789": {a, b, c}, "123": {a}, "456789": {b, c}} {
		got := Together(ts)
		require.Equal(t, want, string(got))
		require.Equal(t, len(want), cap(got))
	}
	moved := b
	moved.Mem = append([]byte{}, b.Mem...)
	for _, ts := range [][]Tensor{nil, {a, c}, {b, a}, {a, a}, {a, part("b", 4, 6)}, {a, moved}} {
		require.Nil(t, Together(ts))
	}
}
