package world

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gomoe/gomoe/sharding"
)

// Mode is where the ranks of a job live.
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

// Config says what a World is to be. The zero Config takes what the
// environment describes.
type Config struct {
	Mode Mode
	// Transport is what carries data between processes: tcp, shm (one machine only),
	// verbs, mpi, MLX's own protocols ring and jaccl, or auto. With auto it is shm if all
	// ranks are on one machine, shm within machines and tcp between them if only some share a
	// machine, else tcp; and tcp, with a line to Log, where a rank cannot have shared memory.
	// Empty means what GOMOE_TRANSPORT says, or auto. Between ranks of one process it is
	// always local.
	Transport string
	// Mesh, if it is not nil, is the mesh that all jobs run on. Every process states the
	// same mesh, and the job must have as many ranks as the mesh.
	Mesh *sharding.Mesh
	// Fallback permits another mode or transport if the requested one is not available.
	// Log and Info say what was done instead. Without Fallback that is an error.
	Fallback bool
	// Deadline is how long ranks wait for each other: for all to come to Setup, for any
	// progress of a collective, and for a sign of life. It is the same on all ranks; see
	// package watch for what it decides. 0 means what GOMOE_DEADLINE says, or
	// jaccl.DefaultDeadline.
	Deadline time.Duration
	// Flight is the folder into which every process of a job writes its last operations
	// when the job fails, and when one of the processes gets the signal SIGUSR1; see
	// package flight. Empty means what GOMOE_FLIGHT says, or a folder for this run of the
	// job in the system's folder for temporary files, which only this user may enter; off
	// means that nothing is written.
	Flight string
	// Log is told of fallbacks and of strangers that were turned away; nil is standard
	// error.
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
	if c.Fallback {
		parts = append(parts, "fallback")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// equal compares all that String shows.
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
