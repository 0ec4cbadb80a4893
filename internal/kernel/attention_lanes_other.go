//go:build !amd64

package kernel

// laneSetOf is never reached: other architectures have scalar loops only.
func laneSetOf(vectors) (laneSet, *set) { panic("kernel: no vector loops on this architecture") }
