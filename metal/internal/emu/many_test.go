package emu

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// As many libraries can be loaded at once as there is memory for. (With a
// thread-local variable in each it was 213: a process has little room for those
// that are fast.)
func TestManyLibraries(t *testing.T) {
	path, err := compiler(t).Build(t.Context(), prelude+"kernel void f(device float* y) { y[0] = 1; }", BuildOptions{})
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	dir := t.TempDir()
	var last *Library
	for i := range 230 {
		copied := fmt.Sprintf("%s/%d.so", dir, i)
		require.NoError(t, os.WriteFile(copied, text, 0o755))
		last, err = Open(copied)
		require.NoError(t, err, i)
		defer last.Close()
	}
	y := floats(t, 1)
	require.NoError(t, last.Run(t.Context(), Launch{Function: "f", Buffers: []Binding{{Buffer: y}}}))
	require.Equal(t, []float32{1}, read(y))
}
