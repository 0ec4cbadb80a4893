//go:build !linux

package pages

// Large does nothing, because the system chooses its pages itself.
func Large([]byte) {}
