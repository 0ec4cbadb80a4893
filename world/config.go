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
	// InProcess has all ranks in this process.
	InProcess
	// PerProcess has one rank in this process, and the others in others.
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
	// verbs, mpi, and MLX's own protocols, ring and jaccl; or auto: shm where all ranks are on one machine, shm within
	// machines and tcp between them where some are, else tcp. Empty is what
	// GOMOE_TRANSPORT says, or auto. Ranks of one process are local.
	Transport string
	// Mesh, if it is not nil, is what all ranks are to run on. Every process states
	// the same one, and the job is to have as many ranks.
	Mesh *sharding.Mesh
	// Fallback permits another mode or transport where what is asked for is not to be
	// had. What was done instead is said on Log, and in Info. Without it that is
	// an error.
	Fallback bool
	// Deadline is how long ranks wait for each other, in Setup and in a collective; 0
	// is 30 s.
	Deadline time.Duration
	// Flight is the folder in which every process of a job writes down its last
	// operations when the job fails, and when one of them gets the signal SIGUSR1; see
	// package flight. Empty is what GOMOE_FLIGHT says, or a folder of the job's in the
	// system's folder for temporary files; off is none.
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
