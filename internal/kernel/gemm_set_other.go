//go:build !amd64

package kernel

func vectorKernels() []kernels { return nil }
