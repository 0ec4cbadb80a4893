//go:build linux

package faults_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/fleet"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
)

// wires connect the devices of package rdmatest's stand-in for the library of RDMA verbs:
// each rank has a device for each other rank.
type wires struct {
	env []string // for the ranks
	cut string   // path of a file with a byte per device, which says whether its wire is cut
}

const (
	devicesPerRank = 8
	allDevices     = 64
)

var buildStandin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "libibverbs.so.1")
	return scratch, rdmatest.Build(path)
})

// newWires builds the stand-in, once per process, and gives every rank its devices.
func newWires(t *testing.T) *wires {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc, to build the stand-in for libibverbs with (Debian: apt-get install gcc)")
	}
	lib, err := buildStandin()
	require.NoError(t, err)
	var rows []string
	for i := range ranks {
		var row []string
		for k := range ranks {
			device := "null"
			if i != k {
				device = fmt.Sprintf(`"rdma_en%d"`, devicesPerRank*i+k)
			}
			row = append(row, device)
		}
		rows = append(rows, "["+strings.Join(row, ",")+"]")
	}
	dir := t.TempDir()
	w := &wires{cut: filepath.Join(dir, "cut"), env: []string{
		"LD_LIBRARY_PATH=" + lib, fmt.Sprintf("STANDIN=devices=%d,dir=%s", allDevices, dir), "GOMOE_DEVICES=[" + strings.Join(rows, ",") + "]",
	}}
	require.NoError(t, os.WriteFile(w.cut, make([]byte, allDevices), 0o600))
	return w
}

// Cut cuts all wires of a rank.
func (w *wires) Cut(t *testing.T, rank int) {
	t.Helper()
	f, err := os.OpenFile(w.cut, os.O_WRONLY, 0) // the ranks have mapped it
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(strings.Repeat("x", devicesPerRank)), int64(devicesPerRank*rank))
	require.NoError(t, err)
}

// mpirun returns the words before a command that make MPI start it on every rank: all on
// this machine, or each on a host of the network.
func mpirun(t *testing.T, net *fleet.Network) []string {
	t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("no mpirun (Debian: apt-get install openmpi-bin)")
	}
	if net == nil {
		return []string{"mpirun", "--oversubscribe", "-n", fmt.Sprint(ranks)}
	}
	// Daemons tell machines apart by their names, so each host gets a name of its own.
	agent := filepath.Join(t.TempDir(), "agent")
	script := "#!/bin/sh\nhost=$1\nshift\ncase $host in\n"
	var hosts []string
	for i := range ranks {
		script += fmt.Sprintf("%s) name='%s' ;;\n", net.Address(i), strings.Join(net.In(i), " "))
		hosts = append(hosts, net.Address(i)+":1")
	}
	script += "esac\nexec $name unshare --uts sh -c \"hostname host${host##*.}; $*\"\n"
	require.NoError(t, os.WriteFile(agent, []byte(script), 0o700))
	subnet := net.Address(0)[:strings.LastIndexByte(net.Address(0), '.')] + ".0/24"
	return append(net.In(0), "mpirun", "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", subnet,
		"--mca", "btl_tcp_if_include", subnet, "--mca", "btl", "tcp,self", "-H", strings.Join(hosts, ","), "-n", fmt.Sprint(ranks))
}
