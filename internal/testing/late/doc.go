// Package late has a device in plain Go, for tests: it runs the host's kernels, as late
// as a device may, on memory that it knows. Who reads before waiting reads what was there
// before, and who writes to what the device still reads has it read that.
package late
