package kernels

// elementwise returns the kernels that compute element by element, and those that move,
// reduce or make elements.
func elementwise() []Kernel {
	return []Kernel{flat(), arrange(), batchRows(), dynamic(), lookup(), scatter(), reduce(), along()}
}
