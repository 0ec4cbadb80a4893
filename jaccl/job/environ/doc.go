// Package environ reads the environment's description of the job: its number of ranks,
// the rank of this process, and the address at which the ranks meet. Every launcher has
// variables of its own for this; Variables lists the ones that are read. Begin with
// Detect. The package opens no connections: that is the task of package meet.
//
// The first of these conventions with a rank and a number of ranks decides:
//
//  1. GOMOE_*, set by gomoe launch
//  2. JACCL_* and MLX_*, set by mlx.launch
//  3. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as set by torchrun
//  4. OMPI_*, PMIX_*, PMI_*, set by mpirun and mpiexec
//  5. SLURM_*, set by srun
//
// Kubernetes numbers the pods of an indexed Job (JOB_COMPLETION_INDEX) but does not give
// their number. So a manifest sets GOMOE_SIZE or WORLD_SIZE, without a rank, and the
// pod's number is the rank.
//
// If two conventions contradict each other, Detect returns an error naming both. Slurm is
// the exception: it starts the daemons of other launchers, too, and the ranks of those
// launchers inherit variables that are about the daemons.
//
// A process started by hand has none of these variables: all ranks are in that process.
//
// detect.go chooses the convention, conventions.go has a function for each, variables.go
// names every variable, job.go has the result and reads MLX's files, and secret.go reads or
// makes the secret.
package environ
