//go:build linux && native

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/metaltest"
)

// Two ranks train on the emulated GPU as one does, in every element of every gradient, and
// a short training on it writes all that one on the host does.
func TestOnDevice(t *testing.T) {
	small := strings.Fields("-device metal-emulated -mesh ep=2 -width 32 -layers 1 -heads 2 -ffn 32 -experts 4 -seq 16 -batch 4")
	args, _ := tiny(t, append(small, "-check")...)
	stdout, err := execute(t, args...)
	metaltest.Compiled(t, err, stdout)
	require.Contains(t, stdout, "\n--check PASSED (loss ")

	trace := filepath.Join(t.TempDir(), "trace.json")
	args, out := tiny(t, append(small, "-steps", "3", "-eval", "2", "-sample", "2", "-trace", trace)...)
	stdout, err = execute(t, args...)
	require.NoError(t, err, stdout)
	for _, name := range []string{"metrics.csv", "training.png", "sample.txt"} {
		_, err := os.Stat(filepath.Join(out, name))
		require.NoError(t, err)
	}
	text, err := os.ReadFile(trace)
	require.NoError(t, err)
	for _, want := range []string{`"rank 0 metal"`, `"rank 1 metal"`, `"cat":"segment"`} {
		require.Contains(t, string(text), want)
	}
}
