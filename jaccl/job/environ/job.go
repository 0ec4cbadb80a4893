package environ

import (
	"fmt"
	"strings"
	"time"
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

	convention string // the convention of Rank and Size
	missing    string // the reason why Coordinator is empty
}

// InProcess reports whether the environment describes no job, so that all ranks
// live in this process.
func (j Job) InProcess() bool { return j.Size == 0 }

// OneHost reports whether all processes of the job are known to run on this
// machine.
func (j Job) OneHost() bool { return j.Size > 0 && j.LocalSize == j.Size }

// Convention names the convention of Rank and Size: gomoe, mlx, torch, ompi, pmi or
// slurm; it is empty if the environment describes no job.
func (j Job) Convention() string { return j.convention }

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
