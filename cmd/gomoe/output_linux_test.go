package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Output that does not fit is an error, wherever it goes.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "x.graph")
	require.NoError(t, os.WriteFile(input, []byte("program p(x f32[4]) {\n\ty = add(x, x)\n\treturn y\n}\n"), 0o600))
	for _, args := range []string{"version", "help", "help plan", "doc", "plan -json", "plan FILE", "plan -json FILE", "run FILE -random 1", "fmt FILE", "kernels"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		var errs bytes.Buffer
		status := run(t.Context(), strings.Fields(strings.ReplaceAll(args, "FILE", input)), nil, full, &errs)
		require.NoError(t, full.Close())
		if status == 0 || errs.Len() == 0 || !strings.Contains(args, "FILE") && strings.Contains(args, "-json") != (status == exitUsage) {
			t.Errorf("%s > /dev/full: status %d, standard error %q", args, status, &errs)
		}
	}
	for _, args := range []string{"run FILE -random 1 -trace /dev/full", "bench collectives -transport local -n 2 -max 8 -batches 1 -batch 1us -tokens 0 -json /dev/full"} {
		var out, errs bytes.Buffer
		status := run(t.Context(), strings.Fields(strings.ReplaceAll(args, "FILE", input)), nil, &out, &errs)
		if status != exitWrong || strings.Count(errs.String(), "write /dev/full: no space left on device") != 1 {
			t.Errorf("%s: status %d, standard error %q", args, status, &errs)
		}
	}
	// A result that cannot be written.
	out := filepath.Join(dir, "y.npy")
	require.NoError(t, os.Symlink("/dev/full", out))
	var stdout, errs bytes.Buffer
	status := run(t.Context(), []string{"run", input, "-random", "1", "-out", dir}, nil, &stdout, &errs)
	if status != exitWrong || !strings.Contains(errs.String(), "y.npy: no space left on device") {
		t.Errorf("-out to a full disk: status %d, standard error %q", status, &errs)
	}
}
