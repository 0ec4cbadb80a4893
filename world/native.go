//go:build darwin || native

package world

// native returns the transports that load libraries of the system.
func native() []transport {
	return []transport{{"verbs", "native", overVerbs}, {"mpi", "native", overMPI}, {"jaccl", "native", overMesh}}
}
