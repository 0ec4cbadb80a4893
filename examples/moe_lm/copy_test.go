package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example stands on public packages alone, and is short: its files in another module build there.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	lines := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		lines += bytes.Count(text, []byte("\n"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	if lines > 450 {
		t.Errorf("the example has %d lines without tests, want at most 450", lines)
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644))
	theirs, err := os.ReadFile(filepath.Join(root, "go.mod")) // the versions of everything else
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(theirs), "\n")
	mod := fmt.Sprintf("module example.com/mine\n%s\nrequire github.com/gomoe/gomoe v0.0.0\nreplace github.com/gomoe/gomoe => %s\n", rest, root)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644))
	cmd := exec.Command("go", "build", "-o", os.DevNull, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
}
