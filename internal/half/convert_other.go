//go:build !amd64

package half

// run converts nothing: there are no vector loops for other architectures.
func (conversion) run(block) int { return 0 }

func vectors() bool { return false }
