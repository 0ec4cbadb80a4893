package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// apart runs fn for every process of a job, here as a World each. The process of rank i has the folder and the host of
// that index.
func apart(t *testing.T, paths []string, fn func(i int, f Folder) error) []error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().String()
	require.NoError(t, l.Close())
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() {
			vars := map[string]string{"GOMOE_RANK": fmt.Sprint(i), "GOMOE_SIZE": fmt.Sprint(len(paths)), "GOMOE_COORDINATOR": at, "GOMOE_SECRET": "0123456789abcdef"}
			var w world.World
			if errs[i] = w.Setup(t.Context(), world.Config{Transport: "tcp", Deadline: time.Minute, Flight: "off", Getenv: func(name string) string { return vars[name] }}); errs[i] == nil {
				errs[i] = errors.Join(fn(i, Folder{Path: path, World: &w, Host: "host-of-" + filepath.Base(path)}), w.Close())
			}
		})
	}
	wg.Wait()
	return errs
}

// state opens a job of a World with the arrays of the tests, placed as given, and puts their values.
func state(w *world.World, mesh string, place map[string]string, fill func(name string) func(runtime.Part) error) (map[string]*runtime.Array, *gomoe.Job, error) {
	p, err := graph.Trace("state", func(tr *graph.Tracer) []*graph.Value {
		var out []*graph.Value
		for name, typ := range types() {
			out = append(out, tr.Input(name, typ.DType, typ.Shape...))
		}
		return []*graph.Value{primitives.ReduceSum(out[0])}
	})
	if err != nil {
		return nil, nil, err
	}
	m, err := sharding.ParseMesh(mesh)
	if err != nil {
		return nil, nil, err
	}
	specs := map[string]sharding.Spec{}
	for name, text := range place {
		if specs[name], err = sharding.ParseSpec(text); err != nil {
			return nil, nil, err
		}
	}
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{World: w, Mesh: m, Place: specs})
	if err != nil {
		return nil, nil, err
	}
	out := map[string]*runtime.Array{}
	for name := range types() {
		if out[name], err = job.PutParts(name, fill(name)); err != nil {
			return nil, job, err
		}
	}
	return out, job, nil
}

// known fills parts with the values of the tests.
func known(name string) func(runtime.Part) error {
	return func(p runtime.Part) error {
		array.CopyBox(p.Array, nil, values()[name], p.Start, p.Type.Shape)
		return nil
	}
}

// holds returns an error unless the parts of this process are those of the values.
func holds(arrays map[string]*runtime.Array) error {
	for name, a := range arrays {
		parts, err := a.Parts()
		if err != nil {
			return err
		}
		for _, p := range parts {
			want := array.New(p.Type)
			array.CopyBox(want, nil, values()[name], p.Start, p.Type.Shape)
			if string(p.Bytes()) != string(want.Bytes()) {
				return fmt.Errorf("%s of rank %d differs", name, p.Rank)
			}
		}
	}
	return nil
}

// save saves the values of the tests after a step.
func save(f Folder, step int, mesh string, place map[string]string) error {
	arrays, job, err := state(f.World, mesh, place, known)
	if err != nil {
		return err
	}
	defer job.Close()
	return f.Save(context.Background(), State{Step: step, Facts: map[string]string{"a": "b"}, Arrays: arrays})
}

// restore opens the newest snapshot, which is that of a step, and reads what the ranks hold.
func restore(f Folder, step int, mesh string, place map[string]string) (err error) {
	s, err := f.Latest(context.Background())
	if err != nil {
		return err
	}
	if s == nil || s.Step != step {
		return fmt.Errorf("the newest snapshot is %v, want that of step %d", s, step)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	arrays, job, err := state(f.World, mesh, place, s.Fill)
	if job != nil {
		defer job.Close()
	}
	if err != nil {
		return err
	}
	return holds(arrays)
}

// folders returns n folders.
func folders(t *testing.T, n int) (paths []string) {
	root := t.TempDir()
	for i := range n {
		paths = append(paths, filepath.Join(root, string(rune('a'+i))))
	}
	return paths
}

func none(t *testing.T, errs []error) {
	t.Helper()
	require.NoError(t, errors.Join(errs...))
}

var split = map[string]string{"experts": "ep", "layers.0.w": "ep", "long": "_,ep"}

// Processes that do not see one folder keep what their ranks hold, those of one host once, and read it again. The oldest
// snapshots go everywhere.
func TestApart(t *testing.T) {
	for _, of := range [][]int{{0, 1}, {0, 0, 1, 1}, {0, 1, 0}, {0, 0}} {
		hosts := folders(t, 2)
		var paths []string
		for _, h := range of {
			paths = append(paths, hosts[h])
		}
		mesh := fmt.Sprintf("ep=%d", len(of))
		for step := 1; step <= 3; step++ {
			none(t, apart(t, paths, func(_ int, f Folder) error { return save(f, step, mesh, split) }))
		}
		none(t, apart(t, paths, func(_ int, f Folder) error { return restore(f, 3, mesh, split) }))
		shared := of[len(of)-1] == 0 && of[1] == 0
		for h, path := range hosts {
			if shared && h == 1 {
				continue
			}
			all, err := os.ReadDir(path)
			require.NoError(t, err)
			require.Len(t, all, 2, path)
			require.Equal(t, "step-00000002", all[0].Name())
			_, err = os.Stat(filepath.Join(path, "step-00000003", readyName))
			require.Equal(t, shared, errors.Is(err, os.ErrNotExist))
			// An array that all ranks hold is there once on each host.
			n := 0
			for r, at := range of {
				if at != h {
					continue
				}
				text, err := os.ReadFile(filepath.Join(path, "step-00000003", parts.FileName(r, len(of))))
				require.NoError(t, err)
				n += strings.Count(string(text[:4096]), `"scalar":`)
			}
			require.Equal(t, 1, n, "%v: copies of a scalar on host %d", of, h)
		}
	}
}

// What a process needs and has not is an error that says which parts lie on which host. Copied together they are a snapshot
// for any mesh, and what every host has is enough for one alone.
func TestElsewhere(t *testing.T) {
	paths := folders(t, 2)
	none(t, apart(t, paths, func(_ int, f Folder) error { return save(f, 5, "ep=2", split) }))
	dirs := []string{Folder{Path: paths[0]}.folder(5), Folder{Path: paths[1]}.folder(5)}

	// The hosts have changed places.
	errs := apart(t, []string{paths[1], paths[0]}, func(_ int, f Folder) error { return restore(f, 5, "ep=2", split) })
	require.ErrorContains(t, errs[0], "parts lie elsewhere: part-00001-of-00002.safetensors on host-of-a; start the ranks on the hosts that have their parts")
	require.ErrorContains(t, errs[1], "parts lie elsewhere: part-00002-of-00002.safetensors on host-of-b; start the ranks on the hosts that have their parts")
	require.ErrorContains(t, errs[0], dirs[1]+": ")

	// One of them alone.
	errs = apart(t, paths[:1], func(_ int, f Folder) error { return restore(f, 5, "", nil) })
	require.ErrorContains(t, errs[0], "parts lie elsewhere: part-00002-of-00002.safetensors on host-of-b")

	// A third host comes without anything.
	third := filepath.Join(t.TempDir(), "c")
	errs = apart(t, []string{paths[0], paths[1], third}, func(_ int, f Folder) error { return restore(f, 5, "ep=3", split) })
	for _, err := range errs {
		require.ErrorContains(t, err, "snapshot: step 5 is not in ")
		require.ErrorContains(t, err, " of rank 2 on host-of-c, and its parts lie elsewhere: part-00001-of-00002.safetensors on host-of-a, part-00002-of-00002.safetensors on host-of-b; start the ranks on the hosts that have their parts, or copy the folder step-00000005 there")
	}

	// The parts in one folder.
	part := parts.FileName(1, 2)
	text, err := os.ReadFile(filepath.Join(dirs[1], part))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dirs[0], part), text, 0o644))
	none(t, apart(t, paths[:1], func(_ int, f Folder) error { return restore(f, 5, "", nil) }))
	none(t, apart(t, []string{paths[0], paths[0], paths[0]}, func(_ int, f Folder) error { return restore(f, 5, "ep=3", split) }))

	// Every host has all of a model that is not split.
	paths = folders(t, 2)
	none(t, apart(t, paths, func(_ int, f Folder) error { return save(f, 7, "dp=2", nil) }))
	none(t, apart(t, paths[1:], func(_ int, f Folder) error { return restore(f, 7, "", nil) }))
}

// A snapshot is there when all folders are ready and one of them is complete, whenever the job ends; a later run completes
// the others. Where none is complete, it is not there.
func TestApartCut(t *testing.T) {
	for name, c := range map[string]struct {
		complete [2]bool
		ready    [2]bool
		newest   int
	}{
		"both": {[2]bool{true, true}, [2]bool{true, true}, 2}, "first": {[2]bool{true, false}, [2]bool{true, true}, 2}, "second": {[2]bool{false, true}, [2]bool{true, true}, 2},
		"none": {[2]bool{}, [2]bool{true, true}, 1}, "one is ready": {[2]bool{}, [2]bool{true, false}, 1},
	} {
		paths := folders(t, 2)
		for step := 1; step <= 2; step++ {
			none(t, apart(t, paths, func(_ int, f Folder) error { return save(f, step, "ep=2", split) }))
		}
		for i, path := range paths {
			for file, stays := range map[string]bool{parts.ManifestName: c.complete[i], readyName: c.ready[i]} {
				if !stays {
					require.NoError(t, os.Remove(filepath.Join(Folder{Path: path}.folder(2), file)))
				}
			}
		}
		none(t, apart(t, paths, func(_ int, f Folder) error { return restore(f, c.newest, "ep=2", split) }))
		none(t, apart(t, paths, func(_ int, f Folder) error { return save(f, c.newest+1, "ep=2", split) }))
		none(t, apart(t, paths, func(_ int, f Folder) error { return restore(f, c.newest+1, "ep=2", split) }))
		for _, path := range paths {
			steps, err := Folder{Path: path}.Steps()
			require.NoError(t, err)
			require.Equal(t, []int{c.newest, c.newest + 1}, steps, name)
		}
	}
	// Two runs.
	paths := folders(t, 2)
	none(t, apart(t, paths, func(_ int, f Folder) error { return save(f, 1, "ep=2", split) }))
	require.NoError(t, os.RemoveAll(paths[1]))
	none(t, apart(t, []string{paths[1] + "-other", paths[1]}, func(_ int, f Folder) error { return save(f, 1, "dp=2", nil) }))
	for _, err := range apart(t, paths, func(_ int, f Folder) error { return restore(f, 1, "ep=2", split) }) {
		require.ErrorContains(t, err, "host-of-a and host-of-b have snapshots of step 1 of two runs; remove one")
	}
}
