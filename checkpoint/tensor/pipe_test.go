//go:build unix

package tensor

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Opening a pipe would wait for somebody who writes to it.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	if _, err := Map(path); err == nil || !strings.Contains(err.Error(), "this is a pipe, want a file") {
		t.Errorf("error %v", err)
	}
}
