//go:build linux && native

package faults_test

func nativeTransports() []transport {
	return []transport{
		{name: "jaccl", killed: names(), stopped: []string{"all_sum", "all_to_all"}, told: true, release: true},
		{name: "mpi", killed: []string{"all_sum", "send_recv"}, stopped: []string{"broadcast"}, told: true},
	}
}
