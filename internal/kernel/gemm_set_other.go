//go:build !amd64 && !arm64

package kernel

func vectorKernels() []kernels { return nil }
