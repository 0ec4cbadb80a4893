// Package clangtest says which tests need the compiler of the emulated GPU. Only tests import it.
package clangtest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Compiler returns the compiler of the emulated GPU. It skips the test where there is none, with what to
// install.
func Compiler(t testing.TB) *emu.Compiler {
	t.Helper()
	c, err := emu.Find()
	Needed(t, err)
	return c
}

// Needed skips the test if err is that there is no compiler, and ends it for any other error. what is what
// was done, in the message of such an end.
func Needed(t testing.TB, err error, what ...any) {
	t.Helper()
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err, what...)
}
