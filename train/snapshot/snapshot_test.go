package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// types are those of the arrays that the tests save.
func types() map[string]graph.Type {
	return map[string]graph.Type{
		"scalar": graph.T(graph.F32), "row": graph.T(graph.F32, 7), "layers.0.w": graph.T(graph.F32, 9, 6),
		"experts": graph.T(graph.BF16, 5, 4, 3), "key": graph.T(graph.U32, 2), "none": graph.T(graph.F32, 0, 4), "long": graph.T(graph.F32, 3, 1000, 200),
	}
}

// open opens a job with an input of every type, placed as given.
func openJob(t *testing.T, mesh string, place map[string]string) *gomoe.Job {
	t.Helper()
	p, err := graph.Trace("state", func(tr *graph.Tracer) []*graph.Value {
		var out []*graph.Value
		for name, typ := range types() {
			out = append(out, tr.Input(name, typ.DType, typ.Shape...))
		}
		return []*graph.Value{primitives.ReduceSum(out[0])}
	})
	require.NoError(t, err)
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	specs := map[string]sharding.Spec{}
	for name, text := range place {
		specs[name], err = sharding.ParseSpec(text)
		require.NoError(t, err)
	}
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{Mesh: m, Place: specs})
	require.NoError(t, err)
	t.Cleanup(func() { job.Close() })
	return job
}

// values returns arrays with different bytes.
func values() map[string]array.Array {
	out := map[string]array.Array{}
	for name, typ := range types() {
		a := array.New(typ)
		for i := range a.Bytes() {
			a.Bytes()[i] = byte(i*7 + i/251 + len(name))
		}
		out[name] = a
	}
	return out
}

func put(t *testing.T, job *gomoe.Job) map[string]*runtime.Array {
	t.Helper()
	out := map[string]*runtime.Array{}
	for name, a := range values() {
		var err error
		out[name], err = job.Put(name, a)
		require.NoError(t, err)
	}
	return out
}

// meshes are how the tests place the arrays.
func meshes() []struct {
	mesh  string
	place map[string]string
} {
	return []struct {
		mesh  string
		place map[string]string
	}{
		{"", nil},
		{"dp=2,ep=2", map[string]string{"experts": "ep", "layers.0.w": "dp.ep", "long": "_,ep,dp"}},
		{"ep=3,tp=2", map[string]string{"experts": "ep,tp", "layers.0.w": "tp,ep", "row": "ep", "long": "ep,_,tp"}},
		{"ep=0-4/5-8", map[string]string{"layers.0.w": "ep"}},
		{"ep=8", map[string]string{"experts": "ep", "row": "ep", "none": "_,ep", "key": "ep", "long": "_,ep"}},
	}
}

// What ranks of one mesh have saved opens on every mesh with the same bits, and every element was
// written once.
func TestOtherMeshes(t *testing.T) {
	for _, from := range meshes() {
		folder := Folder{Path: filepath.Join(t.TempDir(), "snapshots")}
		facts := map[string]string{"-lr": "0.1", "text": "…"}
		require.NoError(t, folder.Save(t.Context(), State{Step: 20, Facts: facts, Arrays: put(t, openJob(t, from.mesh, from.place))}))
		want := int64(0)
		for _, typ := range types() {
			want += typ.Bytes()
		}
		file, err := safetensors.Open(filepath.Join(folder.folder(20), parts.FileName(0, 1)))
		require.NoError(t, err)
		var got int64
		for _, x := range file.Tensors {
			got += int64(len(x.Mem))
		}
		require.NoError(t, file.Close())
		if got != want {
			t.Errorf("%s: %d bytes are written, want %d", from.mesh, got, want)
		}
		for _, to := range meshes() {
			s, err := folder.Latest(t.Context())
			require.NoError(t, err)
			if s.Step != 20 || !mapsEqual(s.Facts, facts) {
				t.Errorf("step %d with facts %v, want 20 with %v", s.Step, s.Facts, facts)
			}
			job := openJob(t, to.mesh, to.place)
			for name, want := range values() {
				a, err := job.PutParts(name, s.Fill(name))
				require.NoError(t, err)
				got, err := a.Get()
				require.NoError(t, err)
				if !array.Equal(got, want) {
					t.Errorf("%s from %q to %q differs", name, from.mesh, to.mesh)
				}
				whole, err := s.Array(name)
				require.NoError(t, err)
				if !array.Equal(whole, want) {
					t.Errorf("%s from %q as a whole differs", name, from.mesh)
				}
			}
			for name, typ := range types() {
				if !s.Types()[name].Equal(typ) || len(s.Types()) != len(types()) {
					t.Errorf("the snapshot has %s, want %s %s", s.Types(), name, typ)
				}
			}
			require.NoError(t, s.Close())
		}
	}
}

func mapsEqual(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// A rank reads its own rows: damage in others is not its concern, damage in its own is an error.
func TestReadsWhatIsNeeded(t *testing.T) {
	folder := Folder{Path: t.TempDir()}
	require.NoError(t, folder.Save(t.Context(), State{Step: 1, Arrays: put(t, openJob(t, "", nil))}))
	path := filepath.Join(folder.folder(1), parts.FileName(0, 1))
	file, err := safetensors.Open(path)
	require.NoError(t, err)
	at := file.Tensors[slices.IndexFunc(file.Tensors, func(x tensor.Tensor) bool { return x.Name == "long" })].Offset
	require.NoError(t, file.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[at] ^= 1 // in row 0 of 3, whose bytes are 800,000 each
	require.NoError(t, os.WriteFile(path, b, 0o644))

	s, err := folder.Latest(t.Context())
	require.NoError(t, err)
	defer s.Close()
	read := func(row int) error {
		whole := types()["long"]
		return s.Fill("long")(runtime.Part{Whole: whole, Start: []int{row, 0, 0}, Array: array.New(graph.T(graph.F32, 1, 1000, 200))})
	}
	require.NoError(t, read(2))
	err = read(0)
	require.ErrorContains(t, err, fmt.Sprintf("part-00001-of-00001.safetensors is damaged: tensor \"long\": the checksum of 1048576 bytes from byte %d of the file on is ", at))
	err = read(1)
	require.ErrorContains(t, err, "is damaged")
	require.NoError(t, read(2))
}

// The newest snapshots stay, and what was not completed is removed with the next one.
func TestKeep(t *testing.T) {
	folder := Folder{Path: t.TempDir(), Keep: 2}
	arrays := put(t, openJob(t, "", nil))
	if s, err := folder.Latest(t.Context()); s != nil || err != nil {
		t.Errorf("a folder without snapshots has %v, %v", s, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder.Path, "step-notes"), nil, 0o644))
	for _, step := range []int{5, 10, 15} {
		broken := filepath.Join(folder.Path, fmt.Sprintf("step-%08d", step+1))
		require.NoError(t, os.MkdirAll(broken, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(broken, parts.FileName(1, 2)), nil, 0o644))
		require.NoError(t, folder.Save(t.Context(), State{Step: step, Arrays: arrays}))
		if _, err := os.Stat(broken); !os.IsNotExist(err) {
			t.Errorf("an incomplete snapshot stays: %v", err)
		}
		steps, err := folder.Steps()
		require.NoError(t, err)
		if want := []int{step - 5, step}; !slices.Equal(steps, want) && !slices.Equal(steps, want[1:]) {
			t.Errorf("after step %d there are the snapshots %v, want %v", step, steps, want)
		}
	}
	few := Folder{Path: folder.Path, Keep: -1}
	require.ErrorContains(t, few.Save(t.Context(), State{Step: 20, Arrays: arrays}), "snapshot: step 20: -1 snapshots are to stay, want at least 1")
	err := folder.Save(t.Context(), State{Step: 15, Arrays: arrays})
	require.ErrorContains(t, err, "snapshot: step 15: ")
	require.ErrorContains(t, err, "is there already; want a step that has no snapshot")
	all, err := os.ReadDir(folder.Path)
	require.NoError(t, err)
	if len(all) != 3 {
		t.Errorf("the folder has %v, want two snapshots and the notes", all)
	}
}

// The snapshot with the smallest loss stays beside the newest, until there is a better one. Steps without a loss are none.
func TestKeepsBest(t *testing.T) {
	folder := Folder{Path: t.TempDir(), Keep: 2}
	arrays := put(t, openJob(t, "", nil))
	for _, x := range []struct {
		loss float64
		want []int
		best int
	}{
		{0, []int{1}, -1}, {3, []int{1, 2}, 2}, {2, []int{2, 3}, 3}, {2.5, []int{3, 4}, 3}, {0, []int{3, 4, 5}, 3}, {2, []int{3, 5, 6}, 3},
		{2.1, []int{3, 6, 7}, 3}, {1, []int{7, 8}, 8}, {4, []int{8, 9}, 8}, {4, []int{8, 9, 10}, 8},
	} {
		step := x.want[len(x.want)-1]
		require.NoError(t, folder.Save(t.Context(), State{Step: step, Loss: x.loss, Arrays: arrays}))
		steps, err := folder.Steps()
		require.NoError(t, err)
		require.Equal(t, x.want, steps)
		best, loss, err := folder.Best()
		require.NoError(t, err)
		require.Equal(t, x.best, best)
		require.Equal(t, map[int]float64{-1: 0, 2: 3, 3: 2, 8: 1}[best], loss)
	}
	s, err := folder.Latest(t.Context()) // a run goes on from the newest
	require.NoError(t, err)
	require.Equal(t, 10, s.Step)
	require.NoError(t, s.Close())
}

// A folder may have any name, and what a run that was killed has left in it goes.
func TestOddFolder(t *testing.T) {
	folder := Folder{Path: filepath.Join(t.TempDir(), "[run *")}
	mark := filepath.Join(folder.Path, siteMark+"left")
	require.NoError(t, os.MkdirAll(folder.Path, 0o755))
	require.NoError(t, os.WriteFile(mark, nil, 0o644))
	require.NoError(t, folder.Save(t.Context(), State{Step: 1, Arrays: put(t, openJob(t, "", nil))}))
	require.NoFileExists(t, mark)
	s, err := folder.Latest(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.Step)
	require.NoError(t, s.Close())
}

// A snapshot that cannot be saved is an error, is not there afterwards, and leaves the earlier ones.
func TestSaveFails(t *testing.T) {
	folder := Folder{Path: t.TempDir()}
	job := openJob(t, "dp=2", nil)
	require.NoError(t, folder.Save(t.Context(), State{Step: 1, Arrays: put(t, job)}))
	spent := put(t, job)
	job.Recycle(spent["row"])
	pending, err := sharding.ParseSpec("{+dp}")
	require.NoError(t, err)
	sum, err := runtime.Put(array.Scalar(float32(1)), spent["key"].Mesh(), pending, []int{0, 1})
	require.NoError(t, err)
	for want, arrays := range map[string]map[string]*runtime.Array{
		"row: runtime: parts of f32[7]: the memory was recycled": spent,
		"sum is a pending sum, f32[]{+dp}":                       {"sum": sum},
	} {
		err := folder.Save(t.Context(), State{Step: 2, Arrays: arrays})
		require.ErrorContains(t, err, "snapshot: step 2: "+want)
		steps, err := folder.Steps()
		require.NoError(t, err)
		require.Equal(t, []int{1}, steps)
		if _, err := os.Stat(folder.folder(2)); !os.IsNotExist(err) {
			t.Errorf("the folder of the snapshot that failed is there: %v", err)
		}
	}
	s, err := folder.Latest(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// Files that are not those that were saved are errors, which say what is wrong.
func TestDamaged(t *testing.T) {
	job := openJob(t, "dp=2", map[string]string{"layers.0.w": "dp"})
	rewrite := func(dir string, change func(m *parts.Manifest)) error {
		m, err := parts.ReadManifest(dir, parts.ManifestName)
		if err != nil {
			return err
		}
		change(m)
		m.Sum = ""
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		m.Sum = parts.Hash(text)
		text, err = json.Marshal(m)
		return errors.Join(err, os.WriteFile(filepath.Join(dir, parts.ManifestName), text, 0o644))
	}
	// anew writes the file of parts anew, and the manifest so that it fits.
	anew := func(dir string, change func(meta map[string]string, ps []parts.Part) []parts.Part) error {
		path := filepath.Join(dir, parts.FileName(0, 1))
		f, err := safetensors.Open(path)
		if err != nil {
			return err
		}
		var ps []parts.Part
		if err := json.Unmarshal([]byte(f.Metadata["parts"]), &ps); err != nil {
			return err
		}
		meta := f.Metadata
		text, err := json.Marshal(change(meta, ps))
		if err != nil {
			return err
		}
		meta["parts"] = string(text)
		var sources []tensor.Source
		for _, x := range f.Tensors {
			mem := slices.Clone(x.Mem)
			sources = append(sources, tensor.Source{Name: x.Name, Type: x.Type, Write: func(w io.Writer) error { _, err := w.Write(mem); return err }})
		}
		err = errors.Join(f.Close(), safetensors.Write(path, meta, sources))
		return errors.Join(err, rewrite(dir, func(m *parts.Manifest) { m.Files[0].Parts = parts.Hash(text) }))
	}
	of := func(ps []parts.Part, name string) *parts.Part {
		return &ps[slices.IndexFunc(ps, func(p parts.Part) bool { return p.Array == name })]
	}
	for _, c := range []struct {
		name, want string
		do         func(dir string) error
	}{
		{"manifest cut", "manifest.json: ends in the middle; is it complete?", func(dir string) error { return os.Truncate(filepath.Join(dir, parts.ManifestName), 100) }},
		{"manifest empty", "manifest.json: ends in the middle; is it complete?", func(dir string) error { return os.Truncate(filepath.Join(dir, parts.ManifestName), 0) }},
		{"manifest changed", "manifest.json is damaged: its checksum is ", func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, parts.ManifestName))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, parts.ManifestName), []byte(strings.Replace(string(b), `"step": 3`, `"step": 4`, 1)), 0o644))
		}},
		{"manifest of later", `format "gomoe snapshot 9", want "gomoe snapshot 1"`, func(dir string) error { return rewrite(dir, func(m *parts.Manifest) { m.Format = "gomoe snapshot 9" }) }},
		{"file elsewhere", `file "../x": want a name without folders`, func(dir string) error { return rewrite(dir, func(m *parts.Manifest) { m.Files[0].Name = "../x" }) }},
		{"no file", "all processes must see the same folder", func(dir string) error { return os.Remove(filepath.Join(dir, parts.FileName(0, 1))) }},
		{"file cut", "the file is cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, parts.FileName(0, 1)), 5000) }},
		{"another step", "is of step 3, want 4", func(dir string) error { return rewrite(dir, func(m *parts.Manifest) { m.Step = 4 }) }},
		{"another file", "is damaged, or of another snapshot", func(dir string) error {
			return rewrite(dir, func(m *parts.Manifest) { m.Files[0].Parts = parts.Hash(nil) })
		}},
		{"an array cut", "layers.0.w: 24 of the 54 elements of f32[9,6] are there", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part {
				at := slices.IndexFunc(ps, func(p parts.Part) bool { return p.Array == "layers.0.w" })
				ps[at].Array = "other"
				return ps
			})
		}},
		{"twice", "layers.0.w: parts layers.0.w[5:9,0:6] and layers.0.w[0:5,0:6] overlap", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part {
				of(ps, "layers.0.w").Start = []int{0, 0}
				i := slices.IndexFunc(ps, func(p parts.Part) bool { return p.Start != nil && p.Tensor == "layers.0.w[5:9,0:6]" })
				ps[i].Start = []int{4, 0}
				return ps
			})
		}},
		{"outside", "[5 6] at [5 0]: does not lie in [9 6]", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part {
				of(ps, "layers.0.w").Start = []int{5, 0}
				return ps
			})
		}},
		{"negative", "[5 6] at [-1 0]: does not lie in [9 6]", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part {
				of(ps, "layers.0.w").Start = []int{-1, 0}
				return ps
			})
		}},
		{"dimensions", "want as many dimensions", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part { of(ps, "layers.0.w").Start = nil; return ps })
		}},
		{"two types", "layers.0.w is f32[10,6], and f32[9,6] in another part", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part {
				i := slices.IndexFunc(ps, func(p parts.Part) bool { return p.Tensor == "layers.0.w[5:9,0:6]" })
				ps[i].Shape = []int{10, 6}
				return ps
			})
		}},
		{"checksums", "0 checksums, want 1", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part { of(ps, "row").Sums = nil; return ps })
		}},
		{"no tensor", `there is no tensor "line"`, func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part { of(ps, "row").Tensor = "line"; return ps })
		}},
		{"a part fewer", "parts for", func(dir string) error {
			return anew(dir, func(_ map[string]string, ps []parts.Part) []parts.Part { return ps[1:] })
		}},
		{"another format", `format "pt", want "gomoe snapshot 1"`, func(dir string) error {
			return anew(dir, func(meta map[string]string, ps []parts.Part) []parts.Part { meta["format"] = "pt"; return ps })
		}},
	} {
		folder := Folder{Path: t.TempDir()}
		require.NoError(t, folder.Save(t.Context(), State{Step: 3, Arrays: put(t, job)}), c.name)
		require.NoError(t, c.do(folder.folder(3)), c.name)
		s, err := folder.Latest(t.Context())
		if s != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "step-00000003") || !strings.HasSuffix(err.Error(), "to go on from an earlier snapshot, remove this folder") {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// What an input wants and what is there are compared.
func TestOtherTypes(t *testing.T) {
	folder := Folder{Path: t.TempDir()}
	require.NoError(t, folder.Save(t.Context(), State{Step: 3, Arrays: put(t, openJob(t, "", nil))}))
	s, err := folder.Latest(t.Context())
	require.NoError(t, err)
	defer s.Close()
	p, err := graph.Trace("p", func(t *graph.Tracer) []*graph.Value {
		return []*graph.Value{primitives.ReduceSum(t.Input("row", graph.F32, 8)), primitives.ReduceSum(t.Input("rows", graph.F32, 7))}
	})
	require.NoError(t, err)
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	defer job.Close()
	_, err = job.PutParts("row", s.Fill("row"))
	require.ErrorContains(t, err, "step-00000003: row is f32[7], want f32[8]")
	_, err = job.PutParts("rows", s.Fill("rows"))
	require.ErrorContains(t, err, `there is no array "rows"; did you mean row?`)
	_, err = s.Array("rows")
	require.ErrorContains(t, err, `there is no array "rows"`)
}

// Nobody is told to remove a snapshot that is sound and belongs to somebody else.
func TestNotAllowed(t *testing.T) {
	err := damaged("run", &fs.PathError{Op: "open", Path: "run/part", Err: fs.ErrPermission})
	require.EqualError(t, err, "snapshot: run: open run/part: permission denied")
}
