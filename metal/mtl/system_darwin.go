package mtl

import (
	"fmt"

	"github.com/gomoe/gomoe/internal/dynlib"
)

// System returns the Runtime of Apple's libraries.
func System() (*Runtime, error) {
	// Without CoreGraphics, MTLCreateSystemDefaultDevice finds no device in a program without
	// windows. Foundation has NSString.
	var open []uintptr
	for _, file := range []string{"CoreGraphics", "Foundation", "Metal", "/usr/lib/libobjc.A.dylib"} {
		if file[0] != '/' {
			file = "/System/Library/Frameworks/" + file + ".framework/" + file
		}
		if err := dynlib.First([]string{file}, func(_ string, l dynlib.Library) error {
			open = append(open, uintptr(l))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("%w: a library of macOS cannot be loaded: %w", ErrNoMetal, err)
		}
	}
	return Load(open[3], open[2])
}
