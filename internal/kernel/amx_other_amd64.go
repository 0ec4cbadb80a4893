//go:build !linux

package kernel

// permitTiles returns false: no system but Linux is known to let processes use
// tiles.
func permitTiles() bool { return false }
