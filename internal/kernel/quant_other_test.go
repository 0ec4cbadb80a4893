//go:build !arm64

package kernel

// quantSets returns the kernels whose products of quantised weights are tested.
func quantSets() []kernels { return available() }
