// Package clangtest skips tests needing the emulated GPU's compiler. Only tests import it.
package clangtest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Compiler returns the compiler of the emulated GPU. If there is none, it skips the test, naming the
// package to install.
func Compiler(t testing.TB) *emu.Compiler {
	t.Helper()
	c, err := emu.Find()
	Needed(t, err)
	return c
}

// Needed skips the test if err reports a missing compiler, and ends it for any other error. The message of
// such an end describes the operation by what.
func Needed(t testing.TB, err error, what ...any) {
	t.Helper()
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err, what...)
}
