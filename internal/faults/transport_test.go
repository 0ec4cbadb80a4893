//go:build linux

package faults_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/fleet"
	"github.com/gomoe/gomoe/jaccl/flight"
)

const ranks = 3

// transport is one that the World sets up, and how far its tests go.
type transport struct {
	name    string
	killed  []string // operations
	stopped []string
	// told says that every survivor names the rank whose fault it is: a rank of MLX's
	// ring knows nothing but that a connection to a neighbour has ended, or brings
	// nothing, and a neighbour may have left for another's fault.
	told bool
	// release says that a job that has failed leaves nothing in the process: MPI keeps
	// what it has begun until the process ends.
	release bool
}

// transports are all of them that this binary has: jaccl and mpi take the tag native. Of
// MPI, package mpi tests the failures by itself; here
// it is tested that the World hands them on. To be stopped is the same to most
// operations, as ranks wait for heads.
func transports() []transport {
	few := []string{"all_sum", "all_to_all", "broadcast", "send_recv"}
	all := []transport{
		{name: "tcp", killed: names(), stopped: few, told: true, release: true},
		{name: "shm", killed: names(), stopped: few, told: true, release: true},
		{name: "ring", killed: ringNames(), stopped: []string{"all_sum", "send_recv"}, release: true},
	}
	return append(all, nativeTransports()...)
}

// over returns the transport of that name.
func over(name string) transport {
	all := transports()
	return all[slices.IndexFunc(all, func(o transport) bool { return o.name == name })]
}

// quarrels are those that ranks have, by job.
func (o transport) quarrels() (jobs [][]quarrel) {
	switch o.name {
	case "ring": // whose protocol has elements only: nothing can be compared
		return nil
	case "mpi": // MPI keeps what it has begun, and a process can begin no other job
		return [][]quarrel{{{"all_sum", "op"}}, {{"broadcast", "type"}}, {{"all_to_all", "size"}}, {{"barrier", "order"}}}
	}
	var all []quarrel
	for _, op := range names() {
		for _, kind := range []string{"op", "type", "size", "order"} {
			all = append(all, quarrel{op, kind})
		}
	}
	return [][]quarrel{all}
}

func names() (all []string) {
	for _, o := range operations() {
		all = append(all, o.name)
	}
	return all
}

// ringNames are the operations that MLX's ring has.
func ringNames() []string {
	return []string{"all_sum", "all_max", "all_min", "all_gather", "send_recv", "barrier"}
}

// job is a job's processes and the folder of their flight records.
type job struct {
	*fleet.Fleet
	transport transport
	flight    string
}

// start starts ranks of a job, at addresses of this machine or of a network.
func start(t *testing.T, program string, over transport, args map[string]string, net *fleet.Network) *job {
	t.Helper()
	host := "127.0.0.1"
	args["transport"] = over.name
	j := &job{transport: over, flight: t.TempDir()}
	o := fleet.Options{Args: args, Env: []string{"GOMOE_FLIGHT=" + j.flight}}
	if net != nil {
		host, o.In = net.Address(0), net.In
	}
	switch over.name {
	case "mpi":
		if _, err := exec.LookPath("mpirun"); err != nil {
			t.Skip("mpirun is missing: apt install openmpi-bin")
		}
		o.Launcher, o.RankFrom = []string{"mpirun", "--oversubscribe", "-n", fmt.Sprint(ranks)}, "OMPI_COMM_WORLD_RANK"
		o.Env = append(o.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		j.Fleet = fleet.Start(t, program, ranks, o)
		return j
	case "jaccl":
		o.Env = append(o.Env, standin(t)...)
	}
	coordinator := fmt.Sprintf("%s:%d", host, freePort(t))
	o.Env = append(o.Env, "GOMOE_SECRET=a secret that is only for tests", "GOMOE_COORDINATOR="+coordinator, fmt.Sprintf("GOMOE_SIZE=%d", ranks), "GOMOE_JOB=0d7f3c9e-8a1f-4b3e-9a52-1f5f3a6f7a11")
	o.EnvOf = func(rank int) []string { return []string{fmt.Sprintf("GOMOE_RANK=%d", rank)} }
	j.Fleet = fleet.Start(t, program, ranks, o)
	return j
}

var buildStandin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "libibverbs.so.1")
	out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", path, "../../jaccl/rdma/testdata/standin.c", "-lpthread").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return scratch, nil
})

// standin returns the environment of ranks whose library of RDMA verbs is the stand-in
// of package rdma, with a device of each rank for each other one.
func standin(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc, to build the stand-in for libibverbs with")
	}
	lib, err := buildStandin()
	require.NoError(t, err)
	var rows []string
	for i := range ranks {
		var row []string
		for k := range ranks {
			device := "null"
			if i != k {
				device = fmt.Sprintf(`"rdma_en%d"`, 8*i+k)
			}
			row = append(row, device)
		}
		rows = append(rows, "["+strings.Join(row, ",")+"]")
	}
	return []string{"LD_LIBRARY_PATH=" + lib, "STANDIN=devices=64,dir=" + t.TempDir(), "GOMOE_DEVICES=[" + strings.Join(rows, ",") + "]"}
}

// scratch is a folder for what all tests of this process use.
var scratch string

func prepare() func() {
	var err error
	if scratch, err = os.MkdirTemp("", "faults"); err != nil {
		panic(err)
	}
	return func() { os.RemoveAll(scratch) }
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// recorded checks that a rank has written its last operations down, and returns why.
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

// leavesNoSegments checks at the end of a test and of all its subtests that no shared
// memory of a job's is left.
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
