//go:build !linux

package wait

// Yield does nothing: without C this system has no call for it.
func Yield() {}
