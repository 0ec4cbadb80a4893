package metal

import (
	"fmt"

	"github.com/gomoe/gomoe/metal/internal/emu"
)

// Compiler says what Emulated compiles with. path and version are those of the clang that
// GOMOE_CLANG names or that is found; cache is the folder for what it has compiled, in
// GOMOE_CACHE or the user's cache directory. If there is no compiler, the error wraps
// ErrNoCompiler and says what to install.
func Compiler() (path, version, cache string, err error) {
	c, err := emu.Find()
	if err != nil {
		return "", "", "", fmt.Errorf("metal: emulated: %w", err)
	}
	return c.Path, c.Version, c.Cache(), nil
}
