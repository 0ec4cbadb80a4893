//go:build !amd64

package half

// run converts nothing: other architectures have no vectors here.
func (conversion) run(block) int { return 0 }

func vectors() bool { return false }
