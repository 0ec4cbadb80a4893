//go:build !amd64 && !arm64

package kernel

// vectorKinds returns nothing: other architectures have the portable kernels only.
func vectorKinds() []Kind { return nil }
