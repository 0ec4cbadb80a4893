//go:build unix && !linux

package tensor

// noReserve is for Linux: other systems do not count what a private mapping may write.
const noReserve = 0
