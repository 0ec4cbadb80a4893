//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// programVar says which of the programs a process is a rank of.
const programVar = "GOMOE_TEST_MPI_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programVar); name != "" {
		os.Exit(rankMain(name))
	}
	os.Exit(m.Run())
}

// mpirun runs a program on n ranks and returns what they printed, and the exit status.
// The launcher is mpirun, or what GOMOE_TEST_MPIRUN names, such as mpirun.mpich.
func mpirun(t *testing.T, n int, program string, env ...string) (output string, status int) {
	t.Helper()
	path, err := exec.LookPath(launcher())
	if err != nil {
		t.Skipf("no %s (Debian: apt-get install openmpi-bin)", launcher())
	}
	args := []string{"-np", strconv.Itoa(n), os.Args[0]}
	if !hydra() {
		args = append([]string{"--oversubscribe"}, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", programVar+"="+program)
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s on %d ranks did not end:\n%s", program, n, out.Bytes())
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	vanished(t, out.String())
	return out.String(), cmd.ProcessState.ExitCode()
}

func launcher() string {
	if name := os.Getenv("GOMOE_TEST_MPIRUN"); name != "" {
		return name
	}
	return "mpirun"
}

// hydra reports whether the launcher is MPICH's.
func hydra() bool {
	version, _ := exec.Command(launcher(), "--version").Output()
	return strings.Contains(string(version), "HYDRA")
}

// vanished checks that no rank is left of those that have said what process they are.
func vanished(t *testing.T, output string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`rank \d+ is process (\d+)`).FindAllStringSubmatch(output, -1) {
		pid, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if syscall.Kill(pid, 0) != nil {
				break
			}
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
				break // dead, and nobody has asked
			}
			if time.Now().After(end) {
				t.Errorf("process %d is left", pid)
				syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}

// succeed runs a program whose ranks all have to print that they are done.
func succeed(t *testing.T, n int, program string, env ...string) {
	t.Helper()
	out, status := mpirun(t, n, program, env...)
	if done := strings.Count(out, " is done"); status != 0 || done != n {
		t.Errorf("%s on %d ranks: status %d, %d done:\n%s", program, n, status, done, out)
	}
}

func TestRanks(t *testing.T) {
	for n := 1; n <= 4; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) { succeed(t, n, "play") })
	}
}

// The garbage collector runs all the time, and moves stacks and frees what nothing
// holds.
func TestCollected(t *testing.T) { succeed(t, 3, "play", "GOGC=1") }

// Every message over TCP, where it is not there at once.
func TestTCP(t *testing.T) {
	succeed(t, 2, "play", "OMPI_MCA_btl=self,tcp", "OMPI_MCA_pml=ob1", "UCX_TLS=self,tcp")
}

func TestSite(t *testing.T) { succeed(t, 3, "site") }

func TestKeys(t *testing.T) {
	out, _ := mpirun(t, 2, "keys")
	if n := strings.Count(out, `rank 1 is at "gather b`); n != 2 {
		t.Errorf("%d ranks say that rank 1 has another key, want 2:\n%s", n, out)
	}
}

// Survivors of a rank that is killed or stopped learn of it, end with an error that
// names it, and nobody is left.
func TestFailures(t *testing.T) {
	for _, c := range []struct{ program, kind string }{
		{"killed", "rank is lost"}, {"panicked", "rank is lost"},
		{"stopped", "(?:rank did not arrive before the deadline|rank is lost)"}, {"late", "rank did not arrive before the deadline"},
	} {
		t.Run(c.program, func(t *testing.T) {
			start := time.Now()
			out, status := mpirun(t, 3, c.program)
			if status == 0 {
				t.Errorf("%s: mpirun reports success", c.program)
			}
			for _, r := range []int{0, 2} {
				if hydra() {
					break // it kills all as soon as one ends, before they can say anything
				}
				if !regexp.MustCompile(fmt.Sprintf(`rank %d ended: .*rank 1.*\(%s\)`, r, c.kind)).MatchString(out) {
					t.Errorf("%s: rank %d did not end with an error that names rank 1 and is %q", c.program, r, c.kind)
				}
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: it took %v", c.program, took)
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// A rank that leaves without Close does not let the others hang in theirs.
func TestUnfinished(t *testing.T) {
	out, _ := mpirun(t, 2, "unfinished")
	if !strings.Contains(out, "rank 0: mpi: close: not finalized: not all ranks have come to Close within 1s") {
		t.Errorf("rank 0 did not say that it was not finalized:\n%s", out)
	}
}

// A library that is not the launcher's would leave each rank alone.
func TestOtherLauncher(t *testing.T) {
	alone(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programVar+"=mismatch")
	out, _ := cmd.CombinedOutput()
	if !strings.Contains(string(out), "has 1 ranks and OMPI_COMM_WORLD_SIZE is 4: this library is not of the launcher") {
		t.Errorf("%s", out)
	}
}

// srun starts ranks that Open MPI would not find: it would end the process, and others
// would leave each rank alone. The user is told how to start them instead.
func TestSrun(t *testing.T) {
	alone(t)
	step := []string{"SLURM_JOB_ID=7", "SLURM_NODELIST=here", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1"}
	for _, c := range []struct{ program, want string }{
		{"play", "srun has started this process and tells it nothing by PMIx, by which Open MPI finds the other ranks: start with srun --mpi=pmix"},
		{"srun", "has 1 ranks and SLURM_STEP_NUM_TASKS is 4: srun has started the ranks, and this library does not find them by what srun tells; start Open MPI with srun --mpi=pmix"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), programVar+"="+c.program)
		if c.program == "play" {
			if lib := alone(t).lib; !lib.openMPI {
				continue // only Open MPI's ends the process
			}
			cmd.Env = append(cmd.Env, step...)
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, want status 1 and %q:\n%s", c.program, err, c.want, out)
		}
	}
}
