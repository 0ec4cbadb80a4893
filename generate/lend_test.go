package generate

import (
	"context"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

// openFile opens a model on a mesh, and closes the checkpoint.
func openFile(t *testing.T, path, mesh string) *Generator {
	t.Helper()
	c, err := checkpoint.Open(path)
	require.NoError(t, err)
	m, err := models.Open(c)
	require.NoError(t, err)
	on, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	g, err := Open(t.Context(), m, c, Options{Config: gomoe.Config{Mesh: on}})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return g
}

// Experts of a rank lie in one piece of a GGUF file, and are used there; columns that tp splits are copied. The file stays in
// memory until the generator is closed, and no longer.
func TestWeightsAreLent(t *testing.T) {
	path := writeGGUFOf(t, 64, 64, 4, graph.Q8_0, false, nil)
	var want []int32
	for mesh, copied := range map[string]bool{"": false, "ep=2": false, "tp=2": true} {
		g := openFile(t, path, mesh)
		m := g.Memory()
		const others = 8 // bytes of the token and its position
		if (m.Mapped < m.Weights-others) != copied || m.Mapped == 0 {
			t.Errorf("mesh %q: %d bytes of weights, of which %d lie in the file", mesh, m.Weights, m.Mapped)
		}
		ids, _ := generate(t, g, Request{Prompt: []int32{2, 4, 32, 3}, N: 20})
		if mesh != "tp=2" {
			if want == nil {
				want = ids
			}
			require.Equal(t, want, ids, mesh)
		}
		require.True(t, isMapped(t, path), mesh)
		require.NoError(t, g.Close())
		require.False(t, isMapped(t, path) && runtime.GOOS == "linux", mesh)
	}
}

// In a folder as transformers writes it the experts of a matrix lie between others. They are used there too, and so are the rows
// of each that tp gives a rank; columns are copied. Tokens are those of transformers.
func TestExpertsOfFolderAreLent(t *testing.T) {
	for _, name := range []string{"mixtral", "olmoe", "qwen3_moe"} {
		prompt, rest := expected(t, name)
		for _, mesh := range []string{"", "ep=2", "tp=2", "ep=2,tp=2"} {
			if name == "qwen3_moe" && strings.Contains(mesh, "ep") {
				continue // it has five experts
			}
			g := openFile(t, "../models/testdata/"+name, mesh)
			job, stacks := g.jobs[shape{1, 1, false}], 0
			for _, in := range job.Plan().In {
				if !strings.Contains(in.Name, "*") {
					continue
				}
				stacks++
				want := in.Spec.Local(job.Plan().Mesh, in.Type).Bytes() * int64(len(job.Local()))
				if in.Spec.At(2) != nil {
					want = 0
				}
				if got := g.in[in.Name].Lent(); got != want {
					t.Errorf("%s on mesh %q: %d bytes of %s are lent, want %d", name, mesh, got, in.Name, want)
				}
			}
			require.NotZero(t, stacks)
			ids, _ := generate(t, g, Request{Prompt: prompt, N: len(rest)})
			require.Equal(t, rest, ids, "%s, %q", name, mesh)
			require.NoError(t, g.Close())
		}
	}
}

// Weights that lie in the file are counted once for all ranks of the process, and parts that are copied for each rank.
func TestRoomForLentWeights(t *testing.T) {
	path := writeGGUFOf(t, 64, 64, 4, graph.Q8_0, false, nil)
	info, err := os.Stat(path)
	require.NoError(t, err)
	for _, mesh := range []string{"", "ep=2", "dp=4", "tp=2"} {
		g := openFile(t, path, mesh)
		weights := map[string]*models.Weight{}
		for _, p := range g.params {
			if weights[p.Name], err = g.o.Adapters.Find(g.c, p); err != nil {
				t.Fatal(err)
			}
		}
		m, ranks := g.Memory(), int64(len(g.jobs[shape{1, 1, false}].Local()))
		caches, steps := m.Caches*ranks, g.steps()
		require.Greater(t, steps, m.Step, "a step of one token beside the largest one")
		apart := int64(0) // if ranks did not share what kernels work with
		for _, j := range g.jobs {
			mem := j.Plan().Report(1).Mem
			apart += ranks * (mem.Total - mem.Inputs)
		}
		require.LessOrEqual(t, steps, apart, mesh)
		require.NoError(t, g.fits(weights, memory.Limit{Bytes: info.Size() + caches + steps}), mesh)
		require.Error(t, g.fits(weights, memory.Limit{Bytes: info.Size()*3/4 + caches + steps}), mesh)
		require.Error(t, g.fits(weights, memory.Limit{Bytes: info.Size() + caches}), "%s: without room for steps", mesh)
		require.ErrorContains(t, g.fits(weights, memory.Limit{Bytes: info.Size()*3/4 + caches, By: "a test"}), "can be had (a test)", mesh)

		asked, without := 0, newGenerator(g.model, g.c, g.o)
		err := without.place(t.Context(), func() memory.Limit { // what is there when weights are known, and when steps are
			asked++
			return []memory.Limit{{Bytes: math.MaxInt64}, {Bytes: info.Size() + caches, By: "a test"}}[asked-1]
		})
		require.ErrorContains(t, err, "weights, steps and caches", "%s: a generator without room for steps", mesh)
		close(without.done)
		require.NoError(t, without.Close())
		require.NoError(t, g.Close())
	}
}

// isMapped reports whether a file lies in this process's memory; true where the system does not say.
func isMapped(t *testing.T, path string) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		return true
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Contains(string(maps), path)
}

// Beside its file, its caches and what its steps are planned to take, an open model takes at most a tenth of its weights.
func TestHeapOfModel(t *testing.T) {
	path := writeGGUFOf(t, 256, 512, 64, graph.Q8_0, false, nil)
	before := inUse()
	g := openFile(t, path, "")
	_, err := g.Generate(context.Background(), Request{Prompt: []int32{2, 4, 32, 3}, N: 20}, all)
	require.NoError(t, err)
	m, took := g.Memory(), inUse()-before
	t.Logf("%d bytes beside weights of %d; caches %d, steps %d", took, m.Weights, m.Caches, m.Step)
	if m.Weights < 25<<20 || took > m.Caches+m.Step+m.Weights/10 {
		t.Errorf("%d bytes of the heap are in use, of which caches %d and steps %d, and weights are %d", took, m.Caches, m.Step, m.Weights)
	}
	require.NoError(t, g.Close())
}

// inUse returns how many bytes of the heap are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
