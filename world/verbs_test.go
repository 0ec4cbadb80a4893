//go:build (linux || darwin) && (darwin || native)

package world_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
	"github.com/gomoe/gomoe/jaccl/rdma/rdmatest"
	"github.com/gomoe/gomoe/world"
)

// devices are those between two processes, and between three.
const (
	twoDevices   = ` GOMOE_DEVICES=[[null,"rdma_en0"],["rdma_en1",null]]`
	threeDevices = ` GOMOE_DEVICES=[[null,"rdma_en0","rdma_en1"],["rdma_en2",null,"rdma_en3"],["rdma_en4","rdma_en5",null]]`
)

// verbs returns the environment of processes whose library of RDMA verbs is the
// stand-in of package rdmatest, and what counts that library's objects in this process:
// contexts, memory regions and so on.
func verbs(t *testing.T) (env string, live func() int) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler, cc, to build the stand-in for librdma with (Debian: apt-get install gcc)")
	}
	library := filepath.Join(t.TempDir(), "standin.so")
	require.NoError(t, rdmatest.Build(library))
	handle, err := purego.Dlopen(library, purego.RTLD_NOW)
	require.NoError(t, err)
	count, err := purego.Dlsym(handle, "standin_live")
	require.NoError(t, err)
	return "JACCL_LIBRDMA=" + library, func() int {
		n, _, _ := purego.SyscallN(count)
		return int(int32(n))
	}
}

// lacking are transports of devices that some ranks do not know.
func lacking() []lack {
	const none = "nothing says which RDMA devices"
	return []lack{
		{"verbs", [2]string{}, [2]string{none, none}},
		{"verbs", [2]string{`GOMOE_DEVICES=[[null,"a0"],["b0",null]]`, ""}, [2]string{"rank 1 (", none}},
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
	env += twoDevices
	ok(t, worlds(t, 2, func(int) world.Config {
		return world.Config{Transport: "verbs", Mesh: mesh, Getenv: func(string) string { return env }}
	}, func(i int, w *world.World) error {
		if info, err := w.Info(); err != nil || info.Transport != "verbs" {
			return fmt.Errorf("%+v, %v: want transport verbs", info, err)
		}
		if err := w.Warmup(t.Context()); err != nil {
			return err
		}
		first := 0
		for session := range 200 {
			bare := live()
			j, err := gomoe.Open(t.Context(), p, gomoe.Config{World: w, Mesh: *mesh, Place: place})
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

// GOMOE_WHOLE_BUFFERS is a setting of all ranks alike, and anything but 0 and 1 is refused.
func TestWholeBuffers(t *testing.T) {
	env, _ := verbs(t)
	env += twoDevices
	const whole = " GOMOE_WHOLE_BUFFERS=1"
	setUp := func(more ...string) []error {
		return worlds(t, 2, func(i int) world.Config {
			return world.Config{Transport: "verbs", Mesh: meshOf(t, "ep=2"), Getenv: func(string) string { return env + more[i] }}
		}, func(_ int, w *world.World) error { return w.Warmup(t.Context()) })
	}
	ok(t, setUp(whole, whole))
	for _, err := range setUp(whole, "") {
		require.ErrorContains(t, err, "sends whole buffers and the other does not, want one setting on all ranks: GOMOE_WHOLE_BUFFERS")
	}
	for _, err := range setUp(" GOMOE_WHOLE_BUFFERS=yes", " GOMOE_WHOLE_BUFFERS=yes") {
		require.ErrorContains(t, err, "GOMOE_WHOLE_BUFFERS=yes: want 0 or 1")
	}
}

// What is wrong with the library is said, with the variable that names it.
func TestNoVerbs(t *testing.T) {
	env := "JACCL_LIBRDMA=" + filepath.Join(t.TempDir(), "none.so") + ` GOMOE_DEVICES=[[null,"a"],["a",null]]`
	for _, err := range worlds(t, 2, func(int) world.Config {
		return world.Config{Transport: "verbs", Getenv: func(string) string { return env }}
	}, func(int, *world.World) error { return nil }) {
		if err == nil || !strings.Contains(err.Error(), "none.so cannot be loaded; check JACCL_LIBRDMA") {
			t.Errorf("%v, want what is wrong with the library", err)
		}
	}
}

// The same devices carry our own protocol and MLX's: for ranks that meet, and for those
// whose devices MLX's launcher gives in a file.
func TestProtocolsOfVerbs(t *testing.T) {
	env, live := verbs(t)
	for n, devices := range map[int]string{2: twoDevices, 3: threeDevices} {
		matrix := filepath.Join(t.TempDir(), "devices.json")
		_, text, _ := strings.Cut(devices, "=")
		require.NoError(t, os.WriteFile(matrix, []byte(text), 0o600))
		for _, c := range []struct {
			transport, env string
			has            bool // all_to_all
		}{
			{"verbs", devices + " UNUSED=%d", true},
			{"jaccl", devices + " UNUSED=%d", false},
			{"verbs", " MLX_IBV_DEVICES=" + matrix + " MLX_RANK=%d", true},
			{"jaccl", " MLX_IBV_DEVICES=" + matrix + " MLX_RANK=%d", false},
		} {
			ok(t, worlds(t, n, func(i int) world.Config {
				return world.Config{Transport: c.transport, Getenv: func(string) string { return env + fmt.Sprintf(c.env, i) }}
			}, func(i int, w *world.World) error {
				if info, err := w.Info(); err != nil || info.Transport != c.transport {
					return fmt.Errorf("%+v, %v: want transport %s", info, err, c.transport)
				}
				if err := w.Warmup(t.Context()); err != nil {
					return err
				}
				comms, err := w.Communicators()
				if err != nil {
					return err
				}
				sum := binary.NativeEndian.AppendUint32(nil, uint32(1)<<i)
				call := collective.Call{Op: "all_sum", DType: graph.U32, Bytes: 4}
				if err := comms[0].World().AllSum(t.Context(), call, sum, sum); err != nil {
					return err
				}
				if got := binary.NativeEndian.Uint32(sum); got != 1<<n-1 {
					t.Errorf("%s: process %d of %d: sum %d, want %d", c.transport, i, n, got, 1<<n-1)
				}
				call.Op = "all_to_all"
				dst, src := make([][]byte, n), make([][]byte, n)
				for k := range src {
					dst[k], src[k] = make([]byte, 4), []byte{byte(i), byte(k), 0, 0}
				}
				err = comms[0].World().AllToAll(t.Context(), call, dst, src)
				switch {
				case c.has && err != nil:
					return err
				case !c.has && !errors.Is(err, jaccl.ErrUnsupported):
					return fmt.Errorf("all_to_all: %v, want that it is unsupported", err)
				case c.has:
					for k := range dst {
						if dst[k][0] != byte(k) || dst[k][1] != byte(i) {
							t.Errorf("process %d: part of %d is %v", i, k, dst[k])
						}
					}
				}
				return w.Reset()
			}))
			if n == 2 {
				wholeExperts(t, "ep=2", func(i int) world.Config {
					return world.Config{Transport: c.transport, Getenv: func(string) string { return env + fmt.Sprintf(c.env, i) }}
				})
			}
		}
	}
	if n := live(); n != 0 {
		t.Errorf("%d contexts, domains, queues and regions were not released", n)
	}
}

// What one rank lacks is an error on all, also where JACCL's protocol says nothing of it.
func TestMeshLacksDevices(t *testing.T) {
	env, _ := verbs(t)
	errs := worlds(t, 2, func(i int) world.Config {
		return world.Config{Transport: "jaccl", Getenv: func(string) string { return env + []string{twoDevices, ""}[i] }}
	}, func(int, *world.World) error { return nil })
	for i, want := range []string{"rank 1 (", "nothing says which RDMA devices"} {
		if errs[i] == nil || !strings.Contains(errs[i].Error(), want) {
			t.Errorf("process %d: %v, want %q", i, errs[i], want)
		}
	}
}
