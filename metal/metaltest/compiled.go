package metaltest

import (
	"testing"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
)

// Compiled skips the test if err is that there is no compiler for the emulated GPU, and ends it for any other
// error. what is what was done, in the message of such an end.
func Compiled(t testing.TB, err error, what ...any) {
	t.Helper()
	clangtest.Needed(t, err, what...)
}
