package kernels

import "slices"

// All returns the kernels, by subject.
func All() []Kernel {
	return slices.Concat(elementwise(), rows(), attention(), routing(), products(), quantised())
}
