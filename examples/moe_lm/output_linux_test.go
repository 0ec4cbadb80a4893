package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/train"
)

// What cannot be written is an error: a trace, or one of the files of -out.
func TestFull(t *testing.T) {
	args, out := tiny(t, "-trace", "/dev/full")
	if _, err := execute(t, args...); err == nil || strings.Count(err.Error(), "write /dev/full: no space left on device") != 1 {
		t.Errorf("-trace /dev/full: error %v", err)
	}
	for _, name := range []string{"metrics.csv", "training.png", "sample.txt"} {
		require.NoError(t, os.RemoveAll(out))
		require.NoError(t, os.MkdirAll(out, 0o700))
		require.NoError(t, os.Symlink("/dev/full", filepath.Join(out, name)))
		if _, err := execute(t, append(args[:len(args)-2:len(args)-2], "-sample", "2")...); err == nil || !strings.Contains(err.Error(), name+": no space left on device") {
			t.Errorf("%s on a full disk: error %v", name, err)
		}
	}
}

// A run whose metrics cannot be written at first begins again when they can, over the model that it has left.
func TestFullOnce(t *testing.T) {
	args, out := tiny(t, "-steps", "4")
	_, err := execute(t, args...)
	require.NoError(t, err)
	failed := filepath.Join(t.TempDir(), "failed")
	args = append(args, "-out", failed)
	require.NoError(t, os.MkdirAll(failed, 0o700))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(failed, "metrics.csv")))
	_, err = execute(t, args...)
	require.Error(t, err)
	require.FileExists(t, filepath.Join(failed, "model.safetensors"))
	require.FileExists(t, filepath.Join(failed, train.RescuedName))
	require.NoError(t, os.Remove(filepath.Join(failed, "metrics.csv")))
	_, err = execute(t, append(args, "-resume")...)
	require.NoError(t, err)
	sameRun(t, "after a full disk", failed, out)
}

// Standard output that is lost is an error.
func TestFullStdout(t *testing.T) {
	for _, more := range []string{"-check", "-help"} {
		args, _ := tiny(t, more)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		cmd := command(args)
		cmd.Stdout = full
		if err := cmd.Run(); err == nil {
			t.Errorf("%s > /dev/full ends as if all was well", more)
		}
		require.NoError(t, full.Close())
	}
}

// A run that fails before its first step leaves the metrics of an earlier one.
func TestMetricsStay(t *testing.T) {
	args, out := tiny(t)
	_, err := execute(t, args...)
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	_, err = execute(t, append(args, "-seq", "100000", "-width", "4", "-layers", "1")...)
	require.Error(t, err)
	after, err := os.ReadFile(filepath.Join(out, "metrics.csv"))
	require.NoError(t, err)
	if string(before) != string(after) {
		t.Errorf("the metrics were\n%sand are\n%s", before, after)
	}
}
