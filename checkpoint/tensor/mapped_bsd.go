//go:build unix && !linux

package tensor

// noReserve is 0, because only Linux accounts for possible writes to private mappings.
const noReserve = 0
