package world

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/sharding"
)

// Mode is the assignment of a job's ranks to processes.
type Mode int

const (
	// Auto is PerProcess if the environment describes a job of several processes (see
	// package environ), else InProcess.
	Auto Mode = iota
	// InProcess puts all ranks into this process.
	InProcess
	// PerProcess puts one rank into each process.
	PerProcess
)

func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case InProcess:
		return "in-process"
	case PerProcess:
		return "per-process"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Config configures a World. The zero Config follows the environment.
type Config struct {
	Mode Mode
	// Transport carries data between processes: tcp, shm (one machine only), verbs, mpi,
	// MLX's own protocols ring and jaccl, or auto. With auto it is shm if all ranks are
	// on one machine, shm within machines and tcp between them if only some share a
	// machine, else tcp. If a rank cannot have shared memory, auto uses tcp and logs a
	// line. Empty means the value of GOMOE_TRANSPORT, or auto. Ranks of one process
	// always use local.
	Transport string
	// Mesh, if not nil, is the mesh of all jobs. Every process must give the same mesh,
	// and the job must have as many ranks as the mesh.
	Mesh *sharding.Mesh
	// Deadline is the time that ranks wait for each other: for all to call Setup, for any
	// progress of a collective, and for a heartbeat. It must be the same on all ranks;
	// see package watch for its effects. 0 means the value of GOMOE_DEADLINE, or
	// jaccl.DefaultDeadline.
	Deadline time.Duration
	// Flight is the folder to which every process of a job writes its last operations
	// when the job fails, and when one of the processes gets the signal SIGUSR1; see
	// package flight. Empty means the value of GOMOE_FLIGHT, or a folder for this run of
	// the job in the system's folder for temporary files, accessible to this user only.
	// off writes nothing.
	Flight string
	// Log receives messages: auto uses tcp because shared memory is missing, a stranger
	// was turned away. nil is standard error.
	Log io.Writer
	// Getenv reads the environment; nil is os.Getenv.
	Getenv func(string) string
}

func (c Config) String() string {
	transport := c.Transport
	if transport == "" {
		transport = "auto"
	}
	parts := []string{"mode " + c.Mode.String(), "transport " + transport}
	if c.Mesh != nil {
		parts = append(parts, fmt.Sprintf("mesh %q", c.Mesh))
	}
	if c.Deadline != 0 {
		parts = append(parts, fmt.Sprintf("deadline %v", c.Deadline))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// equal compares all fields shown by String.
func (c Config) equal(d Config) bool { return c.String() == d.String() }

func (c Config) log() io.Writer {
	if c.Log == nil {
		return os.Stderr
	}
	return c.Log
}

func (c Config) getenv() func(string) string {
	if c.Getenv == nil {
		return os.Getenv
	}
	return c.Getenv
}

// DeadlineFlag defines the flag -deadline, for Config.Deadline. Its value is 0 if the flag
// is not given.
func DeadlineFlag(fs *flag.FlagSet) *time.Duration {
	d := new(time.Duration)
	fs.Func("deadline", "`time` that ranks wait for each other, such as 90s: for all to start, for progress, and for one that is stopped or cut off; GOMOE_DEADLINE or 30s if not given", func(s string) (err error) {
		*d, err = environ.ParseDeadline(s)
		return err
	})
	return d
}
