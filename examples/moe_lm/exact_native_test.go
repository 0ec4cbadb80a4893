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

// With -exact a run has the bits of one rank over libraries of the system, too: MPI, and RDMA devices, which a stand-in plays,
// in gomoe's protocol and in JACCL's, which has no exchange for experts.
func TestExactOverLibraries(t *testing.T) {
	base := []string{"-batch", "8", "-steps", "4", "-exact"}
	args, out := tiny(t, append(base, "-mesh", "")...)
	_, err := execute(t, args...)
	require.NoError(t, err)
	want, _ := trained(t, out)
	same := func(t *testing.T, out string) {
		t.Helper()
		if got, _ := trained(t, out); !bytes.Equal(got, want) {
			t.Error("the model has other bits than on one rank")
		}
	}
	library := filepath.Join(t.TempDir(), "standin.so")
	devices := []string{"JACCL_LIBRDMA=" + library, `GOMOE_DEVICES=[[null,"rdma_en0"],["rdma_en1",null]]`}
	for transport, mesh := range map[string]string{"verbs": "ep=2", "jaccl": "dp=2"} {
		t.Run(transport, func(t *testing.T) {
			if _, err := exec.LookPath("cc"); err != nil {
				t.Skip("no C compiler, cc, to build the stand-in for librdma with (Debian: apt-get install gcc)")
			}
			require.NoError(t, rdmatest.Build(library))
			args, out := tiny(t, append(base, "-mesh", mesh, "-transport", transport)...)
			status, stdout, stderr := launched(t, 2, args, nil, devices...)
			require.Zero(t, status, stderr)
			require.Contains(t, stdout, "in 2 processes over "+transport)
			same(t, out)
		})
	}
	t.Run("mpi", func(t *testing.T) {
		if _, err := exec.LookPath("mpirun"); err != nil {
			t.Skip("no mpirun (Debian: apt-get install openmpi-bin)")
		}
		args, out := tiny(t, append(base, "-mesh", "dp=2,ep=2", "-transport", "mpi")...)
		cmd := exec.Command("mpirun", "--oversubscribe", "-np", "4", os.Args[0])
		cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", asCommand+"="+strings.Join(args, "\x1f"), "GOMAXPROCS=1")
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Contains(t, string(said), "in 4 processes over mpi")
		same(t, out)
	})
}
