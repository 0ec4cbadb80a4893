//go:build !linux

package pages

// Large does nothing, as the system chooses its pages itself.
func Large([]byte) {}
