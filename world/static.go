//go:build !darwin && !native

package world

// native returns the transports that load libraries of the system, which this program cannot.
func native() []transport {
	return []transport{{"verbs", "native", nil}, {"mpi", "native", nil}, {"jaccl", "native", nil}}
}
