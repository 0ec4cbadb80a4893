//go:build (linux || darwin) && (amd64 || arm64)

package rdmatest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

const defaults = "nic=0,mlx=0,devices=64,qps=10,mrs=100,silent=0,gid=1,active=1,fail=0,status=12,stuck=-1,after=0,errno=5,refuse=-"

// Standin loads the stand-in and sets it up for the test: play holds settings listed in
// testdata/standin.c. It returns the library's path. At the end of the test it checks
// that all objects of the library were released. It skips the test if there is no C
// compiler.
func Standin(t testing.TB, play string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc, to build the stand-in for librdma with (Debian: apt-get install gcc)")
	}
	s, err := shared()
	require.NoError(t, err)
	path, err := s.library()
	require.NoError(t, err)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	require.NoError(t, err)
	set, err := purego.Dlsym(handle, "standin_set")
	require.NoError(t, err)
	live, err := purego.Dlsym(handle, "standin_live")
	require.NoError(t, err)
	say := func(text string) {
		b := append([]byte(text), 0)
		purego.SyscallN(set, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
		runtime.KeepAlive(b)
	}
	say("dir=" + s.dir + "," + defaults)
	say(play)
	s.users.Add(1)
	t.Cleanup(func() {
		if s.users.Add(-1) > 0 {
			return // a test with several jobs
		}
		say(defaults)
		if n, _, _ := purego.SyscallN(live); n != 0 {
			t.Errorf("%d contexts, domains, queues and regions were not released", n)
		}
		if files, _ := filepath.Glob(filepath.Join(s.dir, "qp-*")); len(files) > 0 {
			t.Errorf("queue pairs %v were not destroyed", files)
		}
	})
	return path
}
