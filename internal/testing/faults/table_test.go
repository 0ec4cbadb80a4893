//go:build linux

package faults_test

import (
	"slices"
	"testing"

	"github.com/gomoe/gomoe/world"
)

// transport is a transport that the World sets up, and what tests may expect of it.
type transport struct {
	name string
	has  []string // its operations
	// told says that every survivor names the rank whose fault it is. A rank of MLX's ring
	// only knows that a connection to a neighbour has ended or brings nothing, and the
	// neighbour may have left because of another rank. A rank of JACCL waits for all others
	// at once, and does not know the names of their machines.
	told bool
	// release says that a job that has failed leaves nothing behind in the process. MPI
	// keeps what it has allocated until the process ends.
	release bool
}

// transports returns all transports between processes. Those without a word of their own
// have every operation and both properties.
func transports() (all []transport) {
	for _, of := range world.Transports() {
		o := transport{name: of.Name, has: names(), told: true, release: true}
		switch of.Name {
		case "auto", "local": // auto is one of the others; local is for ranks of one process
			continue
		case "ring":
			o.has, o.told = ringNames(), false
		case "jaccl":
			o.has, o.told = meshNames(), false
		case "mpi":
			o.release = false
		}
		all = append(all, o)
	}
	return all
}

// The faults: what goes wrong with a rank, or that it calls something else than the others.
const (
	killed   = "killed"
	stopped  = "stopped"
	cutOff   = "cut off"
	slowness = "slow"
	another  = "another" // operation, type, size or order
)

// faults returns all faults.
func faults() []string { return []string{killed, stopped, cutOff, slowness, another} }

// untested says which faults are not tested on a transport, and why.
func untested() []hole {
	return []hole{
		{"ring", another, "MLX's ring sends elements, and nothing that says what they are of: one's bytes are taken for another's"},
		{"jaccl", another, "JACCL sends elements, and nothing that says what they are of, as the ring does"},
	}
}

// hole is a fault that is not tested on a transport.
type hole struct{ transport, fault, why string }

// cells returns the transports on which this binary tests the fault, each with all of the
// transport's operations. A rank is cut off in a network name space of its own, where only
// shm's memory cannot be cut; the stand-in for RDMA devices cuts its wires.
func cells(fault string) (c []transport) {
	for _, o := range transports() {
		if (native || world.TransportOf(o.name).Tag == "") && !slices.ContainsFunc(untested(), func(h hole) bool { return h.transport == o.name && h.fault == fault }) {
			c = append(c, o)
		}
	}
	return c
}

// over returns the transport with the name.
func over(name string) transport {
	all := transports()
	return all[slices.IndexFunc(all, func(o transport) bool { return o.name == name })]
}

func names() (all []string) {
	for _, o := range operations() {
		all = append(all, o.name)
	}
	return all
}

// ringNames are the operations that MLX's ring has; TestRefused tests the others.
func ringNames() []string {
	return []string{"all_sum", "all_max", "all_min", "all_gather", "send_recv", "send", "barrier"}
}

// meshNames are the operations that JACCL has.
func meshNames() []string { return append(ringNames(), "reduce_scatter") }

// TestHoles: what is not tested is a fault and a transport that exist, and has a reason.
func TestHoles(t *testing.T) {
	t.Parallel()
	for _, h := range untested() {
		if world.TransportOf(h.transport).Name == "" || !slices.Contains(faults(), h.fault) || h.why == "" {
			t.Errorf("%+v, want a transport, a fault and a reason", h)
		}
	}
}
