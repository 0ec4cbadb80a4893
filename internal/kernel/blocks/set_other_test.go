//go:build !arm64

package blocks

// sets returns the functions that are tested.
func sets() []namedSet { return available() }
