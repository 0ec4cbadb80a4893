// Package environ finds out which job the environment describes: how many ranks
// it has, which of them this process is, and where they meet. Several launchers
// say so, each with names of its own; Variables lists what is read.
//
// The first convention that is there decides:
//
//  1. GOMOE_*, which gomoe launch sets
//  2. JACCL_* and MLX_*, which mlx.launch sets
//  3. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
//  4. OMPI_*, PMIX_*, PMI_*, which mpirun and mpiexec set
//  5. SLURM_*, which srun sets
//
// If two of them say different things, that is an error which names both. Slurm is
// the exception: it starts the daemons of other launchers, too, and their ranks
// inherit variables that are about those daemons.
//
// A process that somebody starts by hand has none of these variables: all ranks are in it.
package environ
