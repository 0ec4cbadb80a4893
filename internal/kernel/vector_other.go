//go:build !amd64

package kernel

// run is never reached: other architectures have the scalar loops only.
func (vectors) run(loop, *vectorArgs) { panic("kernel: no vector loops on this architecture") }
