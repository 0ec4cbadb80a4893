//go:build linux

package faults_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/flight"
	"github.com/gomoe/gomoe/internal/testing/fleet"
)

const ranks = 3

// job is a job's processes and the folder of their flight records.
type job struct {
	*fleet.Fleet
	transport transport
	flight    string
	net       *fleet.Network // nil if all ranks use this machine's network
	wires     *wires         // nil if the transport uses no RDMA devices
}

// start starts the ranks of a job on this machine, or on the hosts of a network.
func start(t *testing.T, program string, over transport, args map[string]string, net *fleet.Network) *job {
	t.Helper()
	host := "127.0.0.1"
	args["transport"] = over.name
	j := &job{transport: over, flight: t.TempDir(), net: net}
	o := fleet.Options{Args: args, Env: []string{"GOMOE_FLIGHT=" + j.flight}}
	if net != nil {
		host, o.In = net.Address(0), net.In
	}
	switch over.name {
	case "mpi":
		o.Launcher, o.RankFrom = mpirun(t, net), "OMPI_COMM_WORLD_RANK"
		o.Env = append(o.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_orte_tmpdir_base="+t.TempDir()) // so that its files are removed
		j.Fleet = fleet.Start(t, program, ranks, o)
		return j
	case "verbs", "jaccl":
		j.wires = newWires(t)
		o.Env = append(o.Env, j.wires.env...)
	}
	port := freePort(t)
	o.Env = append(o.Env, "GOMOE_SECRET=a secret that is only for tests", fmt.Sprintf("GOMOE_COORDINATOR=%s:%d", host, port), fmt.Sprintf("GOMOE_SIZE=%d", ranks),
		fmt.Sprintf("GOMOE_JOB=0d7f3c9e-8a1f-4b3e-9a52-%012x", port))
	o.EnvOf = func(rank int) []string { return []string{fmt.Sprintf("GOMOE_RANK=%d", rank)} }
	j.Fleet = fleet.Start(t, program, ranks, o)
	return j
}

// scratch is a folder for files that all tests of this process share.
var scratch string

func prepare() func() {
	var err error
	if scratch, err = os.MkdirTemp("", "faults"); err != nil {
		panic(err)
	}
	return func() { os.RemoveAll(scratch) }
}

var nextPort atomic.Int32

// freePort returns a port at which no other job of this process meets. It is below the
// ports that the system gives to connections, because a job may meet at it once more.
func freePort(t *testing.T) int {
	t.Helper()
	const first, many = 10000, 20000
	for range many {
		port := first + (os.Getpid()*100+int(nextPort.Add(1)))%many
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// recorded checks that a rank has written a record of its last operations, and returns it.
func (j *job) recorded(t *testing.T, rank int) flight.Dump {
	t.Helper()
	d, err := flight.Read(filepath.Join(j.flight, fmt.Sprintf("flight-rank%d.json", rank)))
	if err != nil {
		t.Errorf("rank %d: %v", rank, err)
		return d
	}
	if d.Rank != rank || d.Size != ranks || d.Transport != j.transport.name || len(d.Ops) == 0 {
		t.Errorf("rank %d has recorded rank %d of %d over %s with %d operations", rank, d.Rank, d.Size, d.Transport, len(d.Ops))
	}
	return d
}

func host(t *testing.T) string {
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

// leavesNoSegments checks, when a test and all its subtests have ended, that no shared
// memory of a job is left.
func leavesNoSegments(t *testing.T) {
	segments := func() []string {
		files, err := filepath.Glob("/dev/shm/*")
		require.NoError(t, err)
		return files
	}
	before := segments()
	t.Cleanup(func() {
		for _, s := range segments() {
			if !slices.Contains(before, s) && strings.Contains(s, "gomoe") {
				t.Errorf("%s is left behind", s)
			}
		}
	})
}
