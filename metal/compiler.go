package metal

import (
	"fmt"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Compiler returns the compiler used by Emulated. path and version describe the clang named by
// GOMOE_CLANG, or else found on the system; cache is the folder for compiled objects, in
// GOMOE_CACHE or the user's cache directory. If there is no compiler, the error wraps ErrNoCompiler
// and says what to install.
func Compiler() (path, version, cache string, err error) {
	c, err := emu.Find()
	if err != nil {
		return "", "", "", fmt.Errorf("metal: emulated: %w", err)
	}
	return c.Path, c.Version, c.Cache(), nil
}
