package kernels

// elementwise is what is done element by element, and moves, reduces or makes elements.
func elementwise() []Kernel {
	return []Kernel{flat(), arrange(), dynamic(), lookup(), scatter(), reduce(), along()}
}
