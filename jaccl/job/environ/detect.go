package environ

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// Detect returns the job described by the environment. getenv, normally os.Getenv, reads
// the environment. An empty variable counts as not set. The only files that Detect opens
// are MLX's: it needs the number of their entries and the address in the first entry.
//
// Errors name the variables. It is an error if a rank is given without a number of ranks
// or the other way round, if a number or a deadline cannot be read, if the job does not
// have the rank, if two conventions contradict each other, and if the variables ask for
// JACCL's ring, a protocol that gomoe does not have.
func Detect(getenv func(string) string) (Job, error) {
	return detect(getenv, os.Getppid())
}

// detect is Detect in a process with the given parent, a process number.
func detect(getenv func(string) string, parent int) (Job, error) {
	r := &reader{getenv: getenv}
	claims := []claim{r.gomoe(), r.mlx(), r.torch(), r.ompi(), r.pmi(), r.slurm()}
	if r.err != nil {
		return Job{}, r.err
	}
	var chosen *claim
	for i := range claims {
		c := &claims[i]
		if err := c.check(); err != nil {
			return Job{}, err
		}
		switch {
		case !c.complete():
		case chosen == nil:
			chosen = c
		case c.name != "slurm":
			if err := chosen.against(c); err != nil {
				return Job{}, err
			}
		case chosen.against(c) == nil: // otherwise c describes the daemon that has started this process
			chosen.fill(c)
		}
	}
	job := Job{Secret: getenv(gomoeSecret), SecretFile: getenv(gomoeSecretFile), Matrix: getenv(gomoeDevices), Flight: getenv(gomoeFlight), Verbs: getenv(verbsLibrary), Transport: getenv(gomoeTransport)}
	var err error
	if job.Deadline, err = Deadline(getenv); err != nil {
		return Job{}, err
	}
	switch whole := getenv(gomoeWhole); whole {
	case "", "0":
	case "1":
		job.Whole = true
	default:
		return Job{}, fmt.Errorf("environ: %s=%s: want 0 or 1", gomoeWhole, quoted.Plain(whole))
	}
	if chosen == nil {
		return job, nil
	}
	if err := r.pmix(chosen); err != nil {
		return Job{}, err
	}
	job.convention = chosen.name
	job.Rank, job.Size, job.LocalRank, job.LocalSize = chosen.rank.n, chosen.size.n, chosen.localRank.n, chosen.localSize.n
	// MLX's files are used whichever convention decides: a rank and a size in MLX's
	// variables have been compared with the chosen ones.
	mlx := claims[1]
	job.Hostfile, job.Devices = mlx.hostfile, mlx.devices
	for _, v := range []number{chosen.rank, chosen.size, chosen.localRank, chosen.localSize} {
		if v.set {
			job.Source = append(job.Source, v.String())
		}
	}
	if !chosen.localRank.set || !chosen.localSize.set {
		job.LocalRank, job.LocalSize = 0, 0
	}
	if job.LocalSize > 0 && (job.LocalRank >= job.LocalSize || job.LocalSize > job.Size) {
		return Job{}, fmt.Errorf("environ: %s and %s of %s: want a number below, of at most as many as the job has", chosen.localRank, chosen.localSize, chosen.size)
	}
	r.id(&job, chosen, parent)
	if err := r.coordinator(&job, chosen); err != nil {
		return Job{}, err
	}
	if chosen.name == "gomoe" {
		job.Listener, job.Lifeline = r.file(gomoeListener), r.file(gomoeLifeline)
		if r.err != nil {
			return Job{}, r.err
		}
		if job.Rank != 0 {
			job.Listener = 0
		}
	}
	return job, nil
}

// pmix returns an error if PMIX_RANK, which comes without a number of ranks, differs from
// the rank in Open MPI's or MPICH's variables.
func (r *reader) pmix(chosen *claim) error {
	rank := r.number("PMIX_RANK")
	if r.err != nil {
		return r.err
	}
	if rank.set && (chosen.name == "ompi" || chosen.name == "pmi") && rank.n != chosen.rank.n {
		return fmt.Errorf("environ: %s and %s contradict each other; unset the one that is not meant", chosen.rank, rank)
	}
	return nil
}

// id sets job.ID to an id that all processes of the job can read or compute, leaving it
// empty if there is none.
func (r *reader) id(job *Job, chosen *claim, parent int) {
	use := func(prefix string, names ...string) bool {
		var values []string
		for _, n := range names {
			if v := r.getenv(n); v != "" {
				values = append(values, v)
				job.Source = append(job.Source, n+"="+quoted.Plain(v))
			} else {
				return false
			}
		}
		job.ID = prefix + strings.Join(values, ".")
		return true
	}
	if use("", gomoeJob) {
		return
	}
	switch chosen.name {
	case "torch":
		if use("torch-", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT") {
			return
		}
	case "ompi":
		if use("ompi-", "PMIX_NAMESPACE") || use("ompi-", "OMPI_MCA_ess_base_jobid") {
			return
		}
	}
	if (chosen.name == "slurm" || chosen.host != "") && use("slurm-", "SLURM_JOB_ID", "SLURM_STEP_ID") {
		return
	}
	// On one machine all ranks are children of one daemon of mpiexec.
	if (chosen.name == "ompi" || chosen.name == "pmi") && job.OneHost() {
		job.ID = fmt.Sprintf("%s-child-of-%d", chosen.name, parent)
	}
}

// coordinator sets job.Coordinator to the address at which the ranks meet. If no variable
// has it, the address stays empty. If job.ID is empty, the ID is derived from the
// address.
func (r *reader) coordinator(job *Job, chosen *claim) error {
	set := func(name, address string) error {
		if _, _, err := hostfile.SplitAddress(address); err != nil {
			return fmt.Errorf("environ: %s=%s: %w", name, quoted.Plain(address), err)
		}
		job.Coordinator = address
		job.Source = append(job.Source, name+"="+quoted.Plain(address))
		return nil
	}
	addr, port := r.getenv("MASTER_ADDR"), r.getenv("MASTER_PORT")
	switch {
	case r.getenv(gomoeCoordinator) != "":
		if err := set(gomoeCoordinator, r.getenv(gomoeCoordinator)); err != nil {
			return err
		}
	case chosen.coordinator.value != "":
		if err := set(chosen.coordinator.name, chosen.coordinator.value); err != nil {
			return err
		}
	case addr != "" && port != "":
		address := net.JoinHostPort(addr, port)
		if _, _, err := hostfile.SplitAddress(address); err != nil {
			return fmt.Errorf("environ: MASTER_ADDR=%s MASTER_PORT=%s: %w", quoted.Plain(addr), quoted.Plain(port), err)
		}
		job.Source = append(job.Source, "MASTER_ADDR="+quoted.Plain(addr), "MASTER_PORT="+quoted.Plain(port))
		if store := r.getenv("TORCHELASTIC_USE_AGENT_STORE"); chosen.name == "torch" && store == "True" {
			// torchrun itself listens at that port.
			job.Source = append(job.Source, "TORCHELASTIC_USE_AGENT_STORE="+quoted.Plain(store))
			address = net.JoinHostPort(addr, derivedPort(job.ID+" "+port))
		}
		job.Coordinator = address
	case addr != "" || port != "":
		name, other := "MASTER_ADDR", "MASTER_PORT"
		if addr == "" {
			name, other = other, name
		}
		return fmt.Errorf("environ: %s=%s without %s; set both, or neither", name, quoted.Plain(addr+port), other)
	case job.Size == 1:
		job.Coordinator = "127.0.0.1:0" // there are no other ranks
	case chosen.host != "" && job.ID != "":
		job.Coordinator = net.JoinHostPort(chosen.host, derivedPort(job.ID))
	case (chosen.name == "ompi" || chosen.name == "pmi" || chosen.name == "slurm") && job.OneHost() && job.ID != "":
		job.Coordinator = net.JoinHostPort("127.0.0.1", derivedPort(job.ID))
	case job.LocalSize > 0 && job.LocalSize < job.Size:
		job.missing = fmt.Sprintf(", and they are on several machines (%s of %s)", chosen.localSize, chosen.size)
	}
	if job.ID == "" && job.Coordinator != "" {
		job.ID = "at-" + job.Coordinator
	}
	return nil
}

// derivedPort returns a port computed from the job's id by all processes of a job. The
// port is below the range of ephemeral ports, so it is rarely taken.
func derivedPort(id string) string {
	sum := sha256.Sum256([]byte(id))
	return strconv.Itoa(16384 + (int(sum[0])<<8|int(sum[1]))%16384)
}
