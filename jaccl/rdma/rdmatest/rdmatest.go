// Package rdmatest has a library of RDMA verbs for tests. It is a stand-in that plays the
// devices of Thunderbolt, or of a cluster, between ranks in one process or in several.
// Begin with Standin.
package rdmatest

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

//go:embed testdata/standin.c
var source []byte

// standin is the library of this process, which its tests share.
type standin struct {
	dir     string                 // the folder of the library and of its queue pairs
	library func() (string, error) // builds the library once and returns its path
	users   atomic.Int32           // number of calls of Standin in tests that have not ended
}

// shared returns the standin of this process.
var shared = sync.OnceValues(func() (*standin, error) {
	dir, err := os.MkdirTemp("", "rdma")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "standin.so")
	return &standin{dir: dir, library: sync.OnceValues(func() (string, error) { return path, Build(path) })}, nil
})

// Main runs the tests of a package and then removes the files that Standin has made. It
// returns the exit status.
func Main(m *testing.M) int {
	code := m.Run()
	if s, err := shared(); err == nil {
		os.RemoveAll(s.dir)
	}
	return code
}

// Build compiles the stand-in to a library at path.
func Build(path string) error {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return err
	}
	cmd := exec.Command(cc, "-O2", "-shared", "-fPIC", "-x", "c", "-o", path, "-", "-lpthread")
	cmd.Stdin = strings.NewReader(string(source))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Mesh returns the matrix of devices of n ranks in one process. Every device faces only
// one rank, and no two ranks have the same device, because the stand-in counts a device's
// resources per process.
func Mesh(n int) hostfile.Devices {
	d := make(hostfile.Devices, n)
	for i := range d {
		d[i] = make([][]string, n)
		for j := range d[i] {
			if i != j {
				d[i][j] = []string{fmt.Sprintf("rdma_en%d", 8*i+j)}
			}
		}
	}
	return d
}

// Wires returns a matrix like Mesh, with the given number of wires between every two
// ranks. n·n·wires must not exceed 64, the number of the stand-in's devices.
func Wires(n, wires int) hostfile.Devices {
	d := Mesh(n)
	for i := range d {
		for j := range d[i] {
			if i == j || wires == 1 {
				continue
			}
			d[i][j] = nil
			for w := range wires {
				d[i][j] = append(d[i][j], fmt.Sprintf("rdma_en%d", (i*n+j)*wires+w))
			}
		}
	}
	return d
}

// Within returns a context ending after d, so that a hanging test ends.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// FreeAddress returns an unused IPv4 address, host:port.
func FreeAddress(t testing.TB) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Contains reports a test failure unless err's text contains all words.
func Contains(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}
