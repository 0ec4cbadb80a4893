//go:build darwin || native

package main

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/metal"
)

// compiler names the compiler of the emulated GPU's kernels.
func compiler(context.Context) (string, error) {
	path, version, cache, err := metal.Compiler()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (%s), which keeps what it has compiled in %s", version, path, cache), nil
}
