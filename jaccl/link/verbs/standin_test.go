package verbs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/dynlib"
	"github.com/gomoe/gomoe/jaccl/jaccltest"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
	"github.com/gomoe/gomoe/jaccl/link"
)

// users counts the tests' jobs that use the stand-in in this process.
var users int

// scratch is the directory of the stand-in and of its queue pairs, for all tests of
// this process.
var scratch string

func TestMain(m *testing.M) {
	if role := os.Getenv("RDMA_TEST_RANK"); role != "" {
		os.Exit(rankMain(role))
	}
	dir, err := os.MkdirTemp("", "rdma")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var buildStandin = sync.OnceValues(func() (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "standin.so")
	out, err := exec.Command(cc, "-O2", "-shared", "-fPIC", "-o", path, filepath.Join("testdata", "standin.c"), "-lpthread").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

const defaults = "nic=0,mlx=0,devices=64,qps=10,mrs=100,gid=1,active=1,fail=0,status=12,stuck=-1,after=0,errno=5,refuse=-"

// standin tells the library in this process how to play, until the end of the test,
// and then looks that nothing was left behind. It returns the library's path.
func standin(t testing.TB, play string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc, to build the stand-in for librdma with")
	}
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for librdma is for Unix")
	}
	path, err := buildStandin()
	require.NoError(t, err)
	handle, err := dynlib.Open(path)
	require.NoError(t, err)
	set, err := handle.Symbol("standin_set")
	require.NoError(t, err)
	live, err := handle.Symbol("standin_live")
	require.NoError(t, err)
	say := func(s string) {
		r, err := newRegion(len(s) + 1)
		require.NoError(t, err)
		defer r.close()
		copy(r.b, s)
		invoke(set, r.addr)
	}
	say("dir=" + scratch + "," + defaults)
	say(play)
	users++
	t.Cleanup(func() {
		if users--; users > 0 {
			return // a test with several jobs
		}
		say(defaults)
		if n := invoke(live); n != 0 {
			t.Errorf("%d contexts, domains, queues and regions were not released", n)
		}
		if files, _ := filepath.Glob(filepath.Join(scratch, "qp-*")); len(files) > 0 {
			t.Errorf("queue pairs %v were not destroyed", files)
		}
	})
	return path
}

// mesh is a matrix of n ranks in which no device faces two of them, in one process:
// the stand-in counts per process.
func mesh(n int) hostfile.Devices {
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

// within is a context that ends a test that hangs.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// connectAll connects n ranks of this process, and returns their errors by rank.
func connectAll(t testing.TB, n int, devices hostfile.Devices, settings Settings) ([]link.Link, []error) {
	t.Helper()
	links, errs := make([]link.Link, n), make([]error, n)
	ctx := within(t, 20*time.Second)
	var wg sync.WaitGroup
	for i, site := range jaccltest.Sites(n) {
		wg.Go(func() { links[i], errs[i] = Connect(ctx, site, devices, settings) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for i, l := range links {
			if l != nil {
				if err := l.Close(); err != nil {
					t.Errorf("close of rank %d: %v", i, err)
				}
			}
		}
	})
	return links, errs
}

func linked(t testing.TB, n int, play string) []link.Link {
	t.Helper()
	links, errs := connectAll(t, n, mesh(n), Settings{Library: standin(t, play)})
	for i, err := range errs {
		require.NoError(t, err, "rank %d", i)
	}
	return links
}

// together runs f for every rank at once.
func together(links []link.Link, f func(rank int, l link.Link) error) []error {
	errs := make([]error, len(links))
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = f(i, l) })
	}
	wg.Wait()
	return errs
}

func contains(t *testing.T, err error, words ...string) {
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
