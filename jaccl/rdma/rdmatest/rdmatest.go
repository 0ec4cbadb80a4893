// Package rdmatest has a library of RDMA verbs for tests: a stand-in that plays
// Thunderbolt's devices, or a cluster's, between the ranks of one process or of several.
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

// standin is the library of this process, and what its tests share.
type standin struct {
	dir     string                 // of the library and of its queue pairs
	library func() (string, error) // its path, built once
	users   atomic.Int32           // jobs of tests
}

// shared is that of this process.
var shared = sync.OnceValues(func() (*standin, error) {
	dir, err := os.MkdirTemp("", "rdma")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "standin.so")
	return &standin{dir: dir, library: sync.OnceValues(func() (string, error) { return path, Build(path) })}, nil
})

// Main runs the tests of a package, and removes what Standin has made for them.
func Main(m *testing.M) int {
	code := m.Run()
	if s, err := shared(); err == nil {
		os.RemoveAll(s.dir)
	}
	return code
}

// Build compiles the stand-in into a library of that path.
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

// Mesh is a matrix of n ranks in which no device faces two of them, in one process:
// the stand-in counts per process.
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

// Wires is a matrix of n ranks like that of Mesh, with so many wires between every two.
// The stand-in has 64 devices, which n times n times wires may not exceed.
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

// Within is a context that ends a test that hangs.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// FreeAddress is one of IPv4 at which nobody listens.
func FreeAddress(t testing.TB) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Contains checks that err says all words.
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
