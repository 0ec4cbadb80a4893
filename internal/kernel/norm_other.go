//go:build !amd64 && !arm64

package kernel

// runNorm is never reached: other architectures have scalar loops only.
func (vectors) runNorm(normLoop, *normArgs) {
	panic("kernel: no vector loops on this architecture")
}
