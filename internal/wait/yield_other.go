//go:build !linux

package wait

// Yield does nothing: there is no call of the kernel's for it without C.
func Yield() {}
