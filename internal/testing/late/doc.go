// Package late has a device in plain Go, for tests. The device runs the host's kernels on
// memory that it has allocated or adopted, and runs them as late as a device may. So code
// that reads a result without waiting reads old data, and code that writes too early to
// memory that the device still has to read changes what it reads.
package late
