//go:build !linux

package wait

// Yield does nothing: without C there is no system call for it.
func Yield() {}
