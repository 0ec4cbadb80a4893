package kernels

// elementwise returns the kernels computing element by element, and the kernels moving, reducing or
// generating elements.
func elementwise() []Kernel {
	return []Kernel{flat(), arrange(), batchRows(), dynamic(), lookup(), scatter(), reduce(), along()}
}
