package rdma

import "golang.org/x/sys/unix"

// FramesOnly reports whether this system moves messages of one frame only, as macOS 26.2
// does. JACCL then sends every frame as a message of its own.
func FramesOnly() bool {
	version, err := unix.Sysctl("kern.osproductversion")
	return err == nil && framesOnlyOn(version)
}
