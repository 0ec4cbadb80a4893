//go:build linux && native

package main

import "path/filepath"

// slurmCases are those of MPI, which srun starts with the interface that an MPI is
// built for: Open MPI, as Debian has it, with PMIx, and MPICH with PMI-2. With another
// one the first would end the process, and the second leave every rank alone: both are
// errors before that.
func slurmCases() []slurmCase {
	const openMPI = "MLX_MPI_LIBNAME=libmpi.so.40"
	const remedy = "start with srun --mpi=pmix"
	cases := []slurmCase{
		{name: "pmix", flags: "--mpi=pmix", transport: "mpi"},
		{name: "pmi2", flags: "--mpi=pmi2", transport: "mpi", env: openMPI, refused: remedy},
		{name: "none", flags: "--mpi=none", transport: "mpi", refused: remedy},
		{name: "tcp", flags: "--mpi=none", transport: "tcp"},
	}
	const mpich = "libmpich.so.12"
	if found, err := filepath.Glob("/usr/lib/*/" + mpich); err == nil && len(found) > 0 { // one of the two is enough to test with
		cases = append(cases, slurmCase{name: "MPICH pmi2", flags: "--mpi=pmi2", transport: "mpi"},
			slurmCase{name: "MPICH none", flags: "--mpi=none", transport: "mpi", env: "MLX_MPI_LIBNAME=" + mpich, refused: "start Open MPI with srun --mpi=pmix and MPICH with --mpi=pmi2"})
	}
	return cases
}
