package whole_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/whole"
)

// A full device is an error, which names what was to be written.
func TestFullDevice(t *testing.T) {
	err := whole.Write("/dev/full", say("x"))
	if !errors.Is(err, syscall.ENOSPC) || err.Error() != "write /dev/full: no space left on device" {
		t.Errorf("error %v", err)
	}
}

// A killed process leaves no part of a file.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	f, err := whole.Create(filepath.Join(dir, "x"))
	require.NoError(t, err)
	require.NoError(t, say("part")(f))
	only(t, dir) // so nothing stays whatever happens now
	f.Discard()
}
