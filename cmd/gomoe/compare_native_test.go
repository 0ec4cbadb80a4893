//go:build linux && native

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// Texts are the same over libraries of the system, too: MPI, and RDMA devices, which a stand-in plays, in gomoe's protocol and in JACCL's.
func TestCompareOverLibraries(t *testing.T) {
	dir := bytesModel(t)
	_, one, _ := generateRun(t, "", dir, "-prompt", "!\"#$", "-n", "30")
	same := func(t *testing.T, ranks string, cmd *exec.Cmd) (text string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Run(), "%s", &stderr)
		require.Contains(t, stderr.String(), "the same on "+ranks+" ranks\n")
		return strings.ReplaceAll(stdout.String(), "[0] ", "")
	}
	args := []string{os.Args[0], "generate", dir, "-prompt", "!\"#$", "-n", "30"}
	library := filepath.Join(t.TempDir(), "standin.so")
	for _, transport := range []string{"verbs", "jaccl"} {
		t.Run(transport, func(t *testing.T) {
			if _, err := exec.LookPath("cc"); err != nil {
				t.Skip("no C compiler, cc, to build the stand-in for librdma with (Debian: apt-get install gcc)")
			}
			require.NoError(t, rdmatest.Build(library))
			cmd := exec.Command(os.Args[0], append(append([]string{"launch", "-n", "2", "-transport", transport, "-env", `GOMOE_DEVICES=[[null,"rdma_en0"],["rdma_en1",null]]`, "--"}, args...), "-compare", "1,2")...)
			cmd.Env = append(os.Environ(), asTool+"=1", "JACCL_LIBRDMA="+library)
			require.Equal(t, one, same(t, "1, 2", cmd))
		})
	}
	t.Run("mpi", func(t *testing.T) {
		if _, err := exec.LookPath("mpirun"); err != nil {
			t.Skip("no mpirun (Debian: apt-get install openmpi-bin)")
		}
		cmd := exec.Command("mpirun", append(append([]string{"--oversubscribe", "-np", "4"}, args...), "-compare", "1,2,4", "-transport", "mpi")...)
		cmd.Env = append(os.Environ(), asTool+"=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "GOMAXPROCS=1")
		same(t, "1, 2, 4", cmd) // mpirun shows no control characters, of which the text consists
	})
}
