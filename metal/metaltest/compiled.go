package metaltest

import (
	"testing"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
)

// Compiled skips the test if err reports a missing compiler for the emulated GPU, and ends it for any other
// error. The message of such an end describes the operation by what.
func Compiled(t testing.TB, err error, what ...any) {
	t.Helper()
	clangtest.Needed(t, err, what...)
}
