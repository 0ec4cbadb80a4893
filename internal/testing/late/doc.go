// Package late has a device in plain Go, for tests. The device runs the host's kernels on
// memory that it has allocated or adopted, as late as a device may. So code reading a
// result without waiting reads old data, and code that overwrites an argument too early
// changes the result.
package late
