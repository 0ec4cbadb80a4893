//go:build !((linux || darwin) && (darwin || native))

package world_test

// lacking are transports that load libraries, which this program is not built with.
func lacking() (all []lack) {
	for _, name := range []string{"verbs", "mpi", "jaccl"} {
		why := "transport " + name + " loads a library of the system, and this program is linked statically: build it with -tags native"
		all = append(all, lack{name, [2]string{}, [2]string{why, why}})
	}
	return all
}
