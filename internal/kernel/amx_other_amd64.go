//go:build !linux

package kernel

// permitTiles reports that other systems are not known to let processes have
// tiles.
func permitTiles() bool { return false }
