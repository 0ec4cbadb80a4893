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

func transports() []transport {
	return []transport{
		{name: "tcp", has: names(), told: true, release: true},
		{name: "shm", has: names(), told: true, release: true},
		{name: "ring", has: ringNames(), release: true},
		{name: "verbs", has: names(), told: true, release: true},
		{name: "mpi", has: names(), told: true},
		{name: "jaccl", has: meshNames(), release: true},
	}
}

// The faults: what goes wrong with a rank, or that it calls something else than the others.
const (
	killed   = "killed"
	stopped  = "stopped"
	cutOff   = "cut off"
	slowness = "slow"
	another  = "another" // operation, type, size or order
)

// tested says with which operations each fault is tested on each transport, and if some of
// the transport's operations are missing, why.
func tested() []cell {
	all, ring, mesh, none := names(), ringNames(), meshNames(), []string(nil)
	return []cell{
		{"tcp", killed, all, ""},
		{"tcp", stopped, all, ""},
		{"tcp", cutOff, all, ""}, // in a network name space of its own
		{"tcp", slowness, all, ""},
		{"tcp", another, all, ""},

		{"shm", killed, all, ""},
		{"shm", stopped, all, ""},
		{"shm", cutOff, all, ""}, // only the watch's connections are cut; memory cannot be
		{"shm", slowness, all, ""},
		{"shm", another, all, ""},

		{"ring", killed, ring, ""},
		{"ring", stopped, ring, ""},
		{"ring", cutOff, ring, ""},
		{"ring", slowness, ring, ""},
		{"ring", another, none, "MLX's ring sends elements, and nothing that says what they are of: one's bytes are taken for another's"},

		{"verbs", killed, all, ""},
		{"verbs", stopped, all, ""},
		{"verbs", cutOff, all, ""}, // the stand-in's wires are cut, and the watch's connections
		{"verbs", slowness, all, ""},
		{"verbs", another, all, ""},

		{"jaccl", killed, mesh, ""},
		{"jaccl", stopped, mesh, ""},
		{"jaccl", cutOff, mesh, ""},
		{"jaccl", slowness, mesh, ""},
		{"jaccl", another, none, "JACCL sends elements, and nothing that says what they are of, as the ring does"},

		{"mpi", killed, all, ""},
		{"mpi", stopped, all, ""},
		{"mpi", cutOff, all, ""}, // in a network name space, as is the daemon of mpirun that started it
		{"mpi", slowness, all, ""},
		{"mpi", another, all, ""},
	}
}

// cell is one entry of the table: a fault on a transport.
type cell struct {
	transport, fault string
	ops              []string
	hole             string // why ops lacks some of the transport's operations
}

// cells returns the transports on which this binary tests the fault, and the operations.
func cells(fault string) (c []struct {
	transport
	ops []string
}) {
	for _, t := range tested() {
		if o := over(t.transport); t.fault == fault && (native || world.TransportOf(o.name).Tag == "") {
			c = append(c, struct {
				transport
				ops []string
			}{o, t.ops})
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

// TestTable: the table has an entry for every fault on every transport, and a reason
// wherever an operation is missing.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, of := range world.Transports() {
		name := of.Name
		if name == "auto" || name == "local" { // auto is one of the others; local is for ranks of one process
			continue
		}
		for _, fault := range []string{killed, stopped, cutOff, slowness, another} {
			i := slices.IndexFunc(tested(), func(c cell) bool { return c.transport == name && c.fault == fault })
			if i < 0 {
				t.Errorf("%s, %s: not tested", name, fault)
				continue
			}
			if c := tested()[i]; !slices.Equal(c.ops, over(name).has) && c.hole == "" {
				t.Errorf("%s, %s: tested with %v, without a reason, want %v", name, fault, c.ops, over(name).has)
			}
		}
	}
}
