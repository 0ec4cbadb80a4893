package mtl

import "fmt"

// System returns the Runtime of Apple's libraries.
func System() (*Runtime, error) {
	const frameworks = "/System/Library/Frameworks/"
	// Without CoreGraphics, MTLCreateSystemDefaultDevice finds no device in a program
	// that has no windows. Foundation has NSString.
	for _, name := range []string{"CoreGraphics", "Foundation"} {
		if _, err := load(frameworks + name + ".framework/" + name); err != nil {
			return nil, fmt.Errorf("%w: framework %s: %w", ErrNoMetal, name, err)
		}
	}
	objc, err := load("/usr/lib/libobjc.A.dylib")
	if err != nil {
		return nil, fmt.Errorf("%w: the Objective-C runtime: %w", ErrNoMetal, err)
	}
	metal, err := load(frameworks + "Metal.framework/Metal")
	if err != nil {
		return nil, fmt.Errorf("%w: framework Metal: %w", ErrNoMetal, err)
	}
	return Load(objc, metal)
}
