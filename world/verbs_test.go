//go:build (linux || darwin) && (darwin || native)

package world_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
	"github.com/gomoe/gomoe/world"
)

// verbs returns the environment of two processes whose library of RDMA verbs is the
// stand-in of package rdmatest, and what counts that library's objects in this process:
// contexts, memory regions and so on.
func verbs(t *testing.T) (env string, live func() int) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc, to build the stand-in for librdma with")
	}
	library := filepath.Join(t.TempDir(), "standin.so")
	require.NoError(t, rdmatest.Build(library))
	handle, err := purego.Dlopen(library, purego.RTLD_NOW)
	require.NoError(t, err)
	count, err := purego.Dlsym(handle, "standin_live")
	require.NoError(t, err)
	return "JACCL_LIBRDMA=" + library + ` GOMOE_DEVICES=[[null,"rdma_en0"],["rdma_en1",null]]`, func() int {
		n, _, _ := purego.SyscallN(count)
		return int(int32(n))
	}
}

// Worlds over RDMA devices compute what one process does, in one session after another:
// more than a device has memory regions, of which each takes one and gives it back.
func TestVerbs(t *testing.T) {
	p, place, in := layered(t)
	mesh := meshOf(t, "ep=2")
	want, err := gomoe.Run(t.Context(), p, gomoe.Config{Mesh: *mesh, Place: place}, in)
	require.NoError(t, err)
	env, live := verbs(t)
	ok(t, worlds(t, 2, func(int) world.Config {
		return world.Config{Transport: "jaccl", Mesh: mesh, Getenv: func(string) string { return env }}
	}, func(i int, w *world.World) error {
		if info, err := w.Info(); err != nil || info.Transport != "jaccl" {
			return fmt.Errorf("%+v, %v: want transport jaccl", info, err)
		}
		if err := w.Warmup(t.Context()); err != nil {
			return err
		}
		first := 0
		for session := range 200 {
			bare := live()
			j, err := gomoe.Open(p, gomoe.Config{World: w, Mesh: *mesh, Place: place})
			if err != nil {
				return fmt.Errorf("session %d: %w", session, err)
			}
			got, err := j.Step(t.Context(), in)
			if err != nil {
				return fmt.Errorf("session %d: %w", session, err)
			}
			for k := range want {
				if !array.Equal(got[k], want[k]) {
					t.Errorf("process %d: session %d: result %d is\n%v\nwant\n%v", i, session, k, got[k], want[k])
				}
			}
			if session == 0 {
				if first = live(); first <= bare {
					return errors.New("a session takes no memory region")
				}
			} else if n := live(); n > first+1 { // as the other process is at its own session
				return fmt.Errorf("session %d: %d objects of the library, want %d as in the first", session, n, first)
			}
			if err := j.Close(); err != nil {
				return err
			}
		}
		return nil
	}))
	if n := live(); n != 0 {
		t.Errorf("%d contexts, domains, queues and regions were not released", n)
	}
}

// What is wrong with the library is said, with the variable that names it.
func TestNoVerbs(t *testing.T) {
	env := "JACCL_LIBRDMA=" + filepath.Join(t.TempDir(), "none.so") + ` GOMOE_DEVICES=[[null,"a"],["a",null]]`
	for _, err := range worlds(t, 2, func(int) world.Config {
		return world.Config{Transport: "jaccl", Getenv: func(string) string { return env }}
	}, func(int, *world.World) error { return nil }) {
		if err == nil || !strings.Contains(err.Error(), "none.so can not be loaded; check JACCL_LIBRDMA") {
			t.Errorf("%v, want what is wrong with the library", err)
		}
	}
}
