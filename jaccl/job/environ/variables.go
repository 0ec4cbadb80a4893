package environ

import "github.com/gomoe/gomoe/jaccl/job/hostfile"

// Variable is a variable of the environment that Detect reads.
type Variable struct {
	Name, Meaning string
	Secret        bool // whether the value must not be shown
}

// Variables returns all variables that Detect, Key and MPI read, grouped by convention,
// in the order of the conventions' precedence.
func Variables() []Variable {
	return []Variable{
		{Name: gomoeRank, Meaning: "this process's rank, from 0"},
		{Name: gomoeSize, Meaning: "number of ranks"},
		{Name: gomoeLocalRank, Meaning: "this process's number among the ranks of its machine"},
		{Name: gomoeLocalSize, Meaning: "number of ranks on this machine"},
		{Name: gomoeCoordinator, Meaning: "host:port at which ranks meet; also with other launchers' ranks"},
		{Name: gomoeListener, Meaning: "number of an inherited file of rank 0 that listens there already"},
		{Name: gomoeJob, Meaning: "the job's id, equal on all ranks; also with other launchers' ranks"},
		{Name: gomoeSecret, Meaning: "what ranks prove to each other to know", Secret: true},
		{Name: gomoeSecretFile, Meaning: "file with the secret, readable by its owner only"},
		{Name: gomoeTransport, Meaning: "transport for the data: a name of the flag -transport"},
		{Name: gomoeDeadline, Meaning: "how long ranks wait for each other, such as 90s: the flag -deadline"},
		{Name: gomoeDevices, Meaning: "the RDMA devices between all ranks themselves, as MLX_IBV_DEVICES' file has them"},
		{Name: verbsLibrary, Meaning: "path of the library of RDMA verbs; else the system's librdma or libibverbs"},
		{Name: gomoeWhole, Meaning: "1: transport verbs sends whole buffers, as JACCL does, on all ranks alike"},
		{Name: mpiLibrary, Meaning: "file of the library of MPI; else that of the MPI whose launcher started the ranks"},
		{Name: gomoeFlight, Meaning: "folder for the last operations of every rank of a job that fails, or off"},
		{Name: gomoeLifeline, Meaning: "number of an inherited file that ends with the launcher"},
		{Name: "JACCL_RANK", Meaning: "rank under mlx.launch; else MLX_RANK"},
		{Name: "MLX_RANK", Meaning: "rank under mlx.launch"},
		{Name: "MLX_WORLD_SIZE", Meaning: "number of ranks under mlx.launch; else that of the file's entries"},
		{Name: "JACCL_COORDINATOR", Meaning: "address:port at which ranks meet; else MLX_JACCL_COORDINATOR"},
		{Name: "MLX_JACCL_COORDINATOR", Meaning: "address:port at which ranks meet"},
		{Name: "JACCL_IBV_DEVICES", Meaning: "file with the RDMA devices between all ranks; else MLX_IBV_DEVICES"},
		{Name: "MLX_IBV_DEVICES", Meaning: "file with the RDMA devices between all ranks"},
		{Name: "JACCL_RING", Meaning: "if set, to anything, a job of JACCL is refused: it asks for a ring of RDMA devices; or MLX_JACCL_RING"},
		{Name: "MLX_JACCL_RING", Meaning: "if set, to anything, a job of JACCL is refused: it asks for a ring of RDMA devices"},
		{Name: "MLX_HOSTFILE", Meaning: "file with the addresses of MLX's ring; ranks meet at the first one"},
		{Name: "RANK", Meaning: "rank under torchrun and others"},
		{Name: "WORLD_SIZE", Meaning: "number of ranks"},
		{Name: "LOCAL_RANK", Meaning: "number among the ranks of the machine"},
		{Name: "LOCAL_WORLD_SIZE", Meaning: "number of ranks on the machine"},
		{Name: "MASTER_ADDR", Meaning: "machine at which ranks meet; also with mpirun's and Slurm's ranks"},
		{Name: "MASTER_PORT", Meaning: "port at which ranks meet"},
		{Name: podIndex, Meaning: "rank in an indexed Job of Kubernetes whose manifest sets GOMOE_SIZE or WORLD_SIZE, and no rank"},
		{Name: "TORCHELASTIC_RUN_ID", Meaning: "the job's id under torchrun"},
		{Name: "TORCHELASTIC_RESTART_COUNT", Meaning: "how often torchrun has restarted the job"},
		{Name: "TORCHELASTIC_USE_AGENT_STORE", Meaning: "if True, torchrun itself uses MASTER_PORT; ranks meet at a port that follows from it"},
		{Name: "OMPI_COMM_WORLD_RANK", Meaning: "rank under Open MPI's mpirun"},
		{Name: "OMPI_COMM_WORLD_SIZE", Meaning: "number of ranks"},
		{Name: "OMPI_COMM_WORLD_LOCAL_RANK", Meaning: "number among the ranks of the machine"},
		{Name: "OMPI_COMM_WORLD_LOCAL_SIZE", Meaning: "number of ranks on the machine"},
		{Name: "PMIX_RANK", Meaning: "rank under PMIx; compared only, as it comes without a number of ranks"},
		{Name: "PMIX_NAMESPACE", Meaning: "the job's id under PMIx"},
		{Name: "OMPI_MCA_ess_base_jobid", Meaning: "the job's id under Open MPI without PMIX_NAMESPACE"},
		{Name: "PMI_RANK", Meaning: "rank under MPICH's mpiexec"},
		{Name: "PMI_SIZE", Meaning: "number of ranks"},
		{Name: "MPI_LOCALRANKID", Meaning: "number among the ranks of the machine"},
		{Name: "MPI_LOCALNRANKS", Meaning: "number of ranks on the machine"},
		{Name: "SLURM_PROCID", Meaning: "rank under srun"},
		{Name: "SLURM_NTASKS", Meaning: "number of ranks, without SLURM_STEP_NUM_TASKS"},
		{Name: "SLURM_STEP_NUM_TASKS", Meaning: "number of ranks under srun"},
		{Name: "SLURM_LOCALID", Meaning: "number among the ranks of the machine"},
		{Name: "SLURM_STEP_NUM_NODES", Meaning: "number of machines"},
		{Name: "SLURM_STEP_NODELIST", Meaning: "machines; ranks meet at the first one"},
		{Name: "SLURM_JOB_ID", Meaning: "with the step, the job's id"},
		{Name: "SLURM_STEP_ID", Meaning: "the step's number; without it nothing was started by srun"},
	}
}

// The variables of gomoe launch.
const (
	gomoeRank        = "GOMOE_RANK"
	gomoeSize        = "GOMOE_SIZE"
	gomoeLocalRank   = "GOMOE_LOCAL_RANK"
	gomoeLocalSize   = "GOMOE_LOCAL_SIZE"
	gomoeCoordinator = "GOMOE_COORDINATOR"
	gomoeListener    = "GOMOE_LISTENER"
	gomoeJob         = "GOMOE_JOB"
	gomoeSecret      = "GOMOE_SECRET"
	gomoeSecretFile  = "GOMOE_SECRET_FILE"
	gomoeTransport   = "GOMOE_TRANSPORT"
	gomoeDeadline    = "GOMOE_DEADLINE"
	gomoeLifeline    = "GOMOE_LIFELINE"
	gomoeDevices     = "GOMOE_DEVICES"
	gomoeFlight      = "GOMOE_FLIGHT"
	gomoeWhole       = "GOMOE_WHOLE_BUFFERS"
)

// podIndex is a variable of the pods of indexed Jobs, and of JobSets, which are made of them.
const podIndex = "JOB_COMPLETION_INDEX"

// The variables naming the libraries of RDMA verbs and of MPI. They are read whatever
// starts the ranks.
const (
	verbsLibrary = "JACCL_LIBRDMA"
	mpiLibrary   = "MLX_MPI_LIBNAME"
)

// MPI returns the file name of MPI's library given by the environment, and the name of
// the variable; both are empty if the variable is not set.
func MPI(getenv func(string) string) (library, variable string) {
	if library = getenv(mpiLibrary); library == "" {
		return "", ""
	}
	return library, mpiLibrary
}

// Describe returns the environment of one rank of the job, as NAME=value, in the form
// that Detect reads: GOMOE_*, and RANK and its companions for programs knowing only
// those. masterPort becomes MASTER_PORT, which such programs may use as they like; 0
// leaves out MASTER_ADDR and MASTER_PORT.
func (j Job) Describe(masterPort int) []string {
	out := []string{
		env(gomoeRank, j.Rank), env(gomoeSize, j.Size),
		gomoeCoordinator + "=" + j.Coordinator, gomoeJob + "=" + j.ID,
		env("RANK", j.Rank), env("WORLD_SIZE", j.Size),
	}
	if j.LocalSize > 0 {
		out = append(out, env(gomoeLocalRank, j.LocalRank), env(gomoeLocalSize, j.LocalSize),
			env("LOCAL_RANK", j.LocalRank), env("LOCAL_WORLD_SIZE", j.LocalSize))
	}
	for _, s := range []struct{ name, value string }{{gomoeSecret, j.Secret}, {gomoeSecretFile, j.SecretFile}, {gomoeTransport, j.Transport}, {gomoeDevices, j.Matrix}} {
		if s.value != "" {
			out = append(out, s.name+"="+s.value)
		}
	}
	if j.Deadline > 0 {
		out = append(out, gomoeDeadline+"="+j.Deadline.String())
	}
	if j.Listener > 0 {
		out = append(out, env(gomoeListener, j.Listener))
	}
	if j.Lifeline > 0 {
		out = append(out, env(gomoeLifeline, j.Lifeline))
	}
	if host, _, err := hostfile.SplitAddress(j.Coordinator); err == nil && masterPort > 0 {
		out = append(out, "MASTER_ADDR="+host, env("MASTER_PORT", masterPort))
	}
	return out
}
