package world_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/world"
)

// A request that cannot be met is an error that names it.
func TestRefuses(t *testing.T) {
	two := "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1"
	devices := filepath.Join(t.TempDir(), "devices.json")
	require.NoError(t, os.WriteFile(devices, []byte(`[[null,"rdma_en5"],["rdma_en5",null]]`), 0o600))
	for _, c := range []struct {
		cfg  world.Config
		env  string
		want string
	}{
		{world.Config{Mode: world.PerProcess}, "", "per-process was asked for, and the environment describes no job; start the processes with gomoe launch -n"},
		{world.Config{Mode: world.InProcess}, two, "in-process was asked for, and the environment describes a job (RANK=1 WORLD_SIZE=2"},
		{world.Config{Mesh: meshOf(t, "")}, two, `gomoe: no mesh is given, which is one rank, and RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 says 2 processes; start one process, or take a mesh of 2 ranks`},
		{world.Config{Mesh: meshOf(t, "ep=4")}, two, `the mesh "ep=4" has 4 ranks, and RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 says 2 processes; start 4 processes, or take a mesh of 2 ranks`},
		{world.Config{Mesh: meshOf(t, "ep=4")}, "RANK=0 WORLD_SIZE=1", `the mesh "ep=4" has 4 ranks, and RANK=0 WORLD_SIZE=1`},
		{world.Config{Transport: "tcp"}, "", "transport tcp was asked for, and all ranks are in this process"},
		{world.Config{}, "GOMOE_TRANSPORT=jaccl", "transport jaccl was asked for, and all ranks are in this process"},
		{world.Config{Transport: "local"}, two, "transport local was asked for, and the ranks are 2 processes"},
		{world.Config{Transport: "udp"}, "", `transport "udp", want one of auto, local`},
		{world.Config{}, "GOMOE_TRANSPORT=udp", "gomoe: GOMOE_TRANSPORT=udp, want one of auto, local, tcp"},
		{world.Config{Mode: 7}, "", "mode Mode(7)"},
		{world.Config{Deadline: -1}, "", "deadline -1ns"},
		{world.Config{}, "RANK=1", "RANK=1 without WORLD_SIZE"},
		{world.Config{}, "MLX_RANK=0 MLX_JACCL_RING=1 MLX_IBV_DEVICES=" + devices, "MLX_JACCL_RING is set, which asks for JACCL's ring: only its mesh is spoken here; connect all ranks"},
		{world.Config{}, "RANK=1 WORLD_SIZE=2", "nothing says where the ranks meet"},
	} {
		var w world.World
		cfg := c.cfg
		cfg.Getenv = vars(c.env)
		err := w.Setup(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "gomoe: ") {
			t.Errorf("%v with %q: %v, want an error with %q", cfg, c.env, err, c.want)
		}
		_, err = w.Info()
		require.ErrorContains(t, err, "call Setup first", "a set-up that failed is one")
	}
}

// Processes that do not state the same are told of it, all of them.
func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		what string
		cfg  func(i int) world.Config
		want []string
	}{
		{"mesh", func(i int) world.Config {
			return world.Config{Mesh: meshOf(t, []string{"ep=2", "dp=2"}[i])}
		}, []string{"ep=2", "dp=2", "mesh"}},
		{"transport", func(i int) world.Config {
			return world.Config{Transport: []string{"tcp", "shm"}[i]}
		}, []string{"tcp", "shm", "transport"}},
	} {
		for i, err := range worlds(t, 2, c.cfg, func(int, *world.World) error { return nil }) {
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: process %d: %v, want an error with %q", c.what, i, err, want)
				}
			}
		}
	}
}

// A job on a mesh of another size is an error before anything is exchanged.
func TestMesh(t *testing.T) {
	p, place, _ := layered(t)
	ok(t, worlds(t, 2, func(int) world.Config { return world.Config{} }, func(i int, w *world.World) error {
		_, err := gomoe.Open(t.Context(), p, gomoe.Config{World: w, Mesh: *meshOf(t, "ep=4"), Place: place})
		if err == nil || !strings.Contains(err.Error(), `mesh "ep=4" has 4 ranks, and the World has 2 processes (GOMOE_RANK=`) {
			t.Errorf("process %d: %v", i, err)
		}
		return nil
	}))
}

// A rank that does not come is named by the others within the deadline.
func TestMissing(t *testing.T) {
	at := address(t)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			var w world.World
			defer w.Close()
			err := w.Setup(t.Context(), world.Config{Deadline: time.Second, Getenv: vars(job(i, 3, at))})
			if err == nil || !strings.Contains(err.Error(), "rank 2") && !strings.Contains(err.Error(), "ranks [2]") {
				t.Errorf("process %d: %v, want an error that names rank 2", i, err)
			}
		})
	}
	wg.Wait()
}
