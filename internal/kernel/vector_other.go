//go:build !amd64 && !arm64

package kernel

// has says whether v has the loop in vectors.
func (vectors) has(loop) bool { return false }

// run is never reached: other architectures have the scalar loops only.
func (vectors) run(loop, *vectorArgs) { panic("kernel: no vector loops on this architecture") }
