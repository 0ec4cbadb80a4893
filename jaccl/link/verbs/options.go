package verbs

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Options are a rank's place in a job of JACCL, and how it takes part.
type Options struct {
	Settings
	// Rank is this process's, and the matrix has a row for every rank: a mesh of 2 to 8.
	Rank    int
	Devices hostfile.Devices
	// Coordinator is the address, host:port of IPv4, on which rank 0 listens and to
	// which the others connect.
	Coordinator string
	// FramesOnly is to be set if a rank runs on macOS before 26.3, where JACCL sends
	// every frame as a message of its own.
	FramesOnly bool
	// AllGo says that every rank is of this package, so that there are groups of some
	// ranks, and the operations that JACCL lacks.
	AllGo bool
	// Deadline is how long an operation waits while nothing comes; 0 for
	// jaccl.DefaultDeadline.
	Deadline time.Duration
}

// FromEnv returns the options that MLX's launcher or JACCL's user has put into the
// environment, as getenv returns it; os.Getenv is the process's. It reads the file of
// devices.
//
//	JACCL_RANK         or MLX_RANK               this rank
//	JACCL_IBV_DEVICES  or MLX_IBV_DEVICES        path of the matrix of devices
//	JACCL_COORDINATOR  or MLX_JACCL_COORDINATOR  address of rank 0
//	JACCL_RING         or MLX_JACCL_RING         set to anything: a ring, which is an error
//	JACCL_LIBRDMA                                path of the verbs library
//
// Where both are set the first counts, as in JACCL. An empty variable is as good as
// none.
func FromEnv(getenv func(string) string) (Options, error) {
	either := func(names ...string) (name, value string) {
		for _, n := range names {
			if v := getenv(n); v != "" {
				return n, v
			}
		}
		return names[0] + " or " + names[1], ""
	}
	var o Options
	name, text := either("JACCL_RANK", "MLX_RANK")
	rank, err := strconv.Atoi(text)
	if err != nil || rank < 0 {
		return o, fmt.Errorf("rdma: environment: %s is %q, want the number of this rank, from 0", name, text)
	}
	name, path := either("JACCL_IBV_DEVICES", "MLX_IBV_DEVICES")
	if path == "" {
		return o, fmt.Errorf("rdma: environment: %s is not set, want the path of the matrix of devices", name)
	}
	matrix, err := os.ReadFile(path)
	if err != nil {
		return o, fmt.Errorf("rdma: environment: %s: %w", name, err)
	}
	devices, err := hostfile.ParseDevices(matrix)
	if err != nil {
		return o, fmt.Errorf("rdma: environment: %s, %s: %w", name, path, err)
	}
	if rank >= len(devices) {
		return o, fmt.Errorf("rdma: environment: rank %d, want 0 to %d: %s describes %d ranks", rank, len(devices)-1, path, len(devices))
	}
	name, coordinator := either("JACCL_COORDINATOR", "MLX_JACCL_COORDINATOR")
	if coordinator == "" {
		return o, fmt.Errorf("rdma: environment: %s is not set, want the address of rank 0, as 10.0.0.1:32323", name)
	}
	if name, ring := either("JACCL_RING", "MLX_JACCL_RING"); ring != "" {
		return o, fmt.Errorf("rdma: environment: %s is set, which asks for JACCL's ring: only its mesh is spoken here; connect all ranks with each other and unset it, or start MLX's ring over TCP with --backend ring", name)
	}
	return Options{Settings: Settings{Library: getenv("JACCL_LIBRDMA")}, Rank: rank, Devices: devices, Coordinator: coordinator}, nil
}

func (o Options) deadline() time.Duration {
	if o.Deadline == 0 {
		return jaccl.DefaultDeadline
	}
	return o.Deadline
}
