// Package environ finds out which job the environment describes: how many ranks the job
// has, which of them this process is, and where the ranks meet. Every launcher says this
// with variables of its own; Variables lists those that are read. Begin with Detect. The
// package connects to nobody: that is what package meet does.
//
// The first of these conventions that states a rank and a number of ranks decides:
//
//  1. GOMOE_*, which gomoe launch sets
//  2. JACCL_* and MLX_*, which mlx.launch sets
//  3. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
//  4. OMPI_*, PMIX_*, PMI_*, which mpirun and mpiexec set
//  5. SLURM_*, which srun sets
//
// Kubernetes numbers the pods of an indexed Job (JOB_COMPLETION_INDEX) and does not say how
// many there are. So a manifest sets GOMOE_SIZE or WORLD_SIZE, without a rank, and the pod's
// number is the rank.
//
// If two conventions say different things, Detect returns an error that names both. Slurm
// is the exception: it starts the daemons of other launchers, too, and the ranks of those
// launchers inherit variables that are about the daemons.
//
// A process that somebody starts by hand has none of these variables: all ranks are in that
// process.
package environ
