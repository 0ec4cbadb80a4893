package environ

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Job is this process's place in a job, as described by the environment.
type Job struct {
	// Rank is the index of this process, 0 to Size-1. The zero Job has Size 0: the
	// environment describes no job, and all ranks are in this process.
	Rank, Size int
	// LocalRank and LocalSize count the job's processes on this machine; LocalSize is 0
	// if unknown.
	LocalRank, LocalSize int
	// Coordinator is the host:port at which ranks meet; rank 0 listens there. It is empty
	// if unknown, which Meeting reports.
	Coordinator string
	// Listener is the number of an open file of rank 0 already listening at Coordinator;
	// 0 means that rank 0 listens by itself.
	Listener int
	// ID is the same for all processes of the job and differs from other jobs' IDs.
	ID string
	// Secret is the value of GOMOE_SECRET, SecretFile the value of GOMOE_SECRET_FILE; see
	// Key.
	Secret, SecretFile string
	// Transport is the value of GOMOE_TRANSPORT; empty means auto.
	Transport string
	// Deadline is the time that ranks wait for each other, GOMOE_DEADLINE; 0 if it is not
	// set.
	Deadline time.Duration
	// Lifeline is the number of an open file ending when the launcher ends; 0 means that
	// there is none.
	Lifeline int
	// Hostfile is the path of the file with the addresses of MLX's ring, MLX_HOSTFILE, and
	// Devices the path of the file with the RDMA devices, MLX_IBV_DEVICES; empty if it is not
	// set.
	Hostfile, Devices string
	// Flight is the folder for flight records, GOMOE_FLIGHT, or "off"; empty if it is not set.
	Flight string
	// Matrix holds the RDMA devices themselves, GOMOE_DEVICES, in the format of the file
	// Devices.
	Matrix string
	// Verbs is the path of the library of RDMA verbs, JACCL_LIBRDMA; empty for the system's.
	Verbs string
	// Whole makes transport verbs send whole buffers, GOMOE_WHOLE_BUFFERS; see
	// rdma.Settings.
	Whole bool
	// Source lists the variables used, as NAME=value, in the order of use. It has no
	// secrets.
	Source []string

	convention string // of Rank and Size: gomoe, mlx, torch, ompi, pmi or slurm; empty if there is no job
	missing    string // the reason why Coordinator is empty
}

// InProcess reports whether the environment describes no job, so that all ranks
// live in this process.
func (j Job) InProcess() bool { return j.Size == 0 }

// OneHost reports whether all processes of the job are known to run on this
// machine.
func (j Job) OneHost() bool { return j.Size > 0 && j.LocalSize == j.Size }

// Meeting returns the address at which the ranks meet, or an error naming the variable to
// set.
func (j Job) Meeting() (string, error) {
	if j.Coordinator != "" {
		return j.Coordinator, nil
	}
	return "", fmt.Errorf("environ: rank %d of %d: nothing says where the ranks meet%s; set GOMOE_COORDINATOR=host:port on all ranks, an address of rank 0's machine and a port that is free there",
		j.Rank, j.Size, j.missing)
}

// String describes the job in one line, with the variables that decided.
func (j Job) String() string {
	if j.InProcess() {
		return "no job in the environment: all ranks in this process"
	}
	return fmt.Sprintf("rank %d of %d (%s)", j.Rank, j.Size, strings.Join(j.Source, " "))
}

// ReadDevices returns the RDMA devices connecting the ranks: the value of GOMOE_DEVICES,
// or else the contents of the file named by MLX_IBV_DEVICES. If neither is set, the error
// explains how to set them.
func (j Job) ReadDevices() (hostfile.Devices, error) {
	text := []byte(j.Matrix)
	if j.Matrix == "" {
		if j.Devices == "" {
			return nil, errors.New("environ: nothing says which RDMA devices connect the ranks; set MLX_IBV_DEVICES to the file with the matrix, or start with mlx.launch --backend jaccl, or gomoe launch and a hostfile that has \"rdma\"")
		}
		var err error
		if text, err = readFile("devices", j.Devices); err != nil {
			return nil, err
		}
	}
	d, err := hostfile.ParseDevices(text)
	if err == nil && len(d) != j.Size {
		err = fmt.Errorf("environ: devices of %d ranks for a job of %d; is the file that of this job?", len(d), j.Size)
	}
	return d, err
}

// ReadNodes returns the addresses of MLX's ring: the contents of the file named by
// MLX_HOSTFILE.
func (j Job) ReadNodes() (hostfile.Nodes, error) {
	if j.Hostfile == "" {
		return nil, errors.New("environ: nothing says at which addresses the ranks of the ring are; set MLX_HOSTFILE to the file with them and MLX_RANK, or start with mlx.launch --backend ring or gomoe launch")
	}
	text, err := readFile("MLX_HOSTFILE", j.Hostfile)
	if err != nil {
		return nil, err
	}
	n, err := hostfile.ParseNodes(text)
	if err == nil && len(n) != j.Size {
		err = fmt.Errorf("environ: addresses of %d ranks of a ring for a job of %d; is the file that of this job?", len(n), j.Size)
	}
	return n, err
}

// readFile reads one of MLX's files; name is the variable's, for errors.
func readFile(name, path string) ([]byte, error) {
	data, err := infile.Read(path, hostfile.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("environ: %s: %w", name, err)
	}
	return data, nil
}

// The shortest and the longest deadline that users may set. A rank on a busy machine may
// be late by some hundred milliseconds without any fault.
const (
	minDeadline = time.Second
	maxDeadline = 24 * time.Hour
)

// ParseDeadline reads the time that ranks wait for each other: a number with its unit,
// such as 90s or 10m, from 1 s to 24 h.
func ParseDeadline(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < minDeadline || d > maxDeadline {
		return 0, fmt.Errorf("want a number with its unit, such as 90s or 10m, from %v to %.0fh", minDeadline, maxDeadline.Hours())
	}
	return d, nil
}

// Deadline returns the time that ranks wait for each other from GOMOE_DEADLINE; 0 if it
// is not set.
func Deadline(getenv func(string) string) (time.Duration, error) {
	s := getenv(gomoeDeadline)
	if s == "" {
		return 0, nil
	}
	d, err := ParseDeadline(s)
	if err != nil {
		return 0, fmt.Errorf("environ: %s=%s: %w", gomoeDeadline, quoted.Plain(s), err)
	}
	return d, nil
}
