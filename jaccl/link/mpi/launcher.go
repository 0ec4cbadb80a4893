package mpi

import (
	"errors"
	"fmt"
	"strconv"
)

// launched returns the number of ranks started by the launcher, and the environment
// variable with that number; empty texts if there is no launcher.
func launched(getenv func(string) string) (variable, size string) {
	variables := []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}
	if bySrun(getenv) {
		variables = append(variables, "SLURM_STEP_NUM_TASKS")
	}
	for _, v := range variables {
		if s := getenv(v); s != "" {
			return v, s
		}
	}
	return "", ""
}

// bySrun reports whether Slurm's srun has started this process directly, rather than the
// daemons of another launcher.
func bySrun(getenv func(string) string) bool {
	return getenv("SLURM_STEP_ID") != "" && getenv("OMPI_COMM_WORLD_SIZE") == "" && getenv("MPI_LOCALNRANKS") == "" // mpiexec sets the latter
}

// errNoPMIx is the error of a start that would make Open MPI end the process.
var errNoPMIx = errors.New("srun has started this process and tells it nothing by PMIx, by which Open MPI finds the other ranks: " +
	"start with srun --mpi=pmix (srun --mpi=list says what this Slurm has), or with mpirun; " +
	"if this Open MPI was built with Slurm's PMI-1 or PMI-2, set OMPI_MCA_pmix=s1 or s2; a process that is to be alone is started without srun")

// startable returns an error if MPI_Init is known to end the process: with Open MPI in a
// step of srun that has no PMIx server.
func (l *library) startable(getenv func(string) string) error {
	if !l.openMPI || !bySrun(getenv) || getenv("PMIX_NAMESPACE") != "" || getenv("OMPI_MCA_pmix") != "" {
		return nil
	}
	return fmt.Errorf("mpi: open: %s (%s): %w", l.name, l.version, errNoPMIx)
}

// together returns an error if the launcher started several ranks as one job, but each of
// them is a job of one rank to the library.
func (w *World) together(getenv func(string) string) error {
	variable, size := launched(getenv)
	n, err := strconv.Atoi(size)
	if err != nil || n == w.size {
		return nil
	}
	remedy := "this library is not of the launcher that started this process; name the launcher's in MLX_MPI_LIBNAME, or start with this library's mpirun"
	if bySrun(getenv) {
		remedy = "srun has started the ranks, and this library does not find them by what srun tells; start Open MPI with srun --mpi=pmix and MPICH with --mpi=pmi2 (srun --mpi=list), " +
			"or with this library's mpirun, or name another library in MLX_MPI_LIBNAME"
	}
	return fmt.Errorf("mpi: open: %s (%s) has %d ranks and %s is %d: %s", w.lib.name, w.lib.version, w.size, variable, n, remedy)
}
