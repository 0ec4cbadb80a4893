//go:build !darwin && !native

package world

// native are the transports that load libraries of the system, which this program lacks.
func native() []transport {
	return []transport{{"verbs", "native", nil}, {"mpi", "native", nil}, {"jaccl", "native", nil}}
}
