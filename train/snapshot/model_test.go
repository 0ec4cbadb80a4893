package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
)

// asModel says how the arrays of the tests are a model.
func asModel() *Model {
	return &Model{
		Tensors: []parts.Tensor{
			{Array: "row", Name: "norm.weight"}, {Array: "layers.0.w", Name: "layers.0.weight", Transposed: true},
			{Array: "experts", Name: "experts.*.weight"}, {Array: "long", Name: "experts.*.up.weight", Transposed: true},
			{Array: "experts", Name: "turned.*.weight", Halves: 4},
		},
		Files: map[string][]byte{"config.json": []byte(`{"model_type": "any"}`), "tokenizer.json": []byte("{}"), "templates/more.jinja": []byte("x")},
	}
}

// What ranks of any mesh have saved opens as the model that the snapshot says it is.
func TestModel(t *testing.T) {
	v := values()
	want := map[string]array.Array{"norm.weight": v["row"], "layers.0.weight": v["layers.0.w"].Transposed()}
	for e := range 5 {
		one := v["experts"].Rows(e, e+1).Reshape(4, 3)
		want["experts."+string(rune('0'+e))+".weight"] = one
		turned := array.New(one.Type)
		for to, from := range []int{0, 2, 1, 3} {
			copy(turned.Rows(to, to+1).Bytes(), one.Rows(from, from+1).Bytes())
		}
		want["turned."+string(rune('0'+e))+".weight"] = turned
	}
	for e := range 3 {
		want["experts."+string(rune('0'+e))+".up.weight"] = v["long"].Rows(e, e+1).Reshape(1000, 200).Transposed()
	}
	for _, from := range meshes() {
		folder := Folder{Path: filepath.Join(t.TempDir(), "checkpoints")}
		require.NoError(t, folder.Save(t.Context(), State{Step: 20, Model: asModel(), Arrays: put(t, openJob(t, from.mesh, from.place))}))
		require.FileExists(t, filepath.Join(folder.folder(20), "templates", "more.jinja"))
		c, err := checkpoint.Open(folder.folder(20))
		require.NoError(t, err)
		require.Equal(t, "any", c.Config.Architecture)
		require.Len(t, c.Tensors, len(want))
		for name, w := range want {
			x, err := c.Tensor(name)
			require.NoError(t, err)
			a, err := x.Array()
			require.NoError(t, err)
			require.True(t, array.Equal(w, a), "%s from %q", name, from.mesh)
		}
		lies, err := c.Tensor("norm.weight")
		require.NoError(t, err)
		require.Equal(t, len(from.place) == 0 || from.place["row"] == "", strings.HasSuffix(lies.File, ".safetensors"), "%s lies in %s", from.mesh, lies.File)
		require.NoError(t, c.Close())
	}
}

// A snapshot that is no model, or a damaged one, says so.
func TestModelErrors(t *testing.T) {
	job := openJob(t, "ep=2", split)
	folder := Folder{Path: t.TempDir(), Keep: 100}
	step := 0
	save := func(m *Model) (string, error) {
		step++
		return folder.folder(step), folder.Save(t.Context(), State{Step: step, Model: m, Arrays: put(t, job)})
	}
	for want, x := range map[string]parts.Tensor{
		`tensor "w" is to be array "other", which there is not`: {Array: "other", Name: "w"},
		`array "scalar" of f32[] cannot be `:                    {Array: "scalar", Name: "experts.*.w"},
		`array "row" of f32[7] cannot be `:                      {Array: "row", Name: "w", Transposed: true},
		`array "layers.0.w" of f32[9,6] cannot be `:             {Array: "layers.0.w", Name: "w", Halves: 2},
		`two arrays are to be tensor "norm.weight"`:             {Array: "key", Name: "norm.weight"},
	} {
		m := asModel()
		m.Tensors = append(m.Tensors, x)
		_, err := save(m)
		require.ErrorContains(t, err, want)
	}
	dir, err := save(nil)
	require.NoError(t, err)
	_, err = checkpoint.Open(dir)
	require.ErrorContains(t, err, dir+": this is a checkpoint from which a training run goes on, and it does not say how it is a model; the command of the run with -resume, and with -steps 6, writes the model")

	dir, err = save(asModel())
	require.NoError(t, err)
	for _, path := range []string{folder.Path, filepath.Dir(folder.Path)} {
		if path != folder.Path {
			require.NoError(t, os.Symlink(folder.Path, filepath.Join(path, "checkpoints")))
		}
		_, err = checkpoint.Open(path)
		require.ErrorContains(t, err, "each is a model, too: the newest is "+filepath.Join(path))
		require.ErrorContains(t, err, "step-00000007")
	}
	config := filepath.Join(dir, "config.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"model_type": "other"}`), 0o644))
	_, err = checkpoint.Open(dir)
	require.ErrorContains(t, err, "config.json is damaged, or was changed: its checksum is ")
	require.NoError(t, os.WriteFile(config, asModel().Files["config.json"], 0o644))

	// Bytes that are used where they lie are compared when they are used, and those that are put together at once.
	m := asModel()
	m.Tensors = slices.DeleteFunc(m.Tensors, func(x parts.Tensor) bool { return x.Halves > 0 })
	dir, err = save(m)
	require.NoError(t, err)
	path := filepath.Join(dir, parts.FileName(0, 1))
	flip := func(name string) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		b[offsetOf(t, path, name)] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}
	const whole, columns = "experts[0:3,0:4,0:3]", "layers.0.w[0:5,0:6]"
	flip(whole)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	x, err := c.Tensor("experts.0.weight")
	require.NoError(t, err)
	_, err = x.Array()
	require.ErrorContains(t, err, "is damaged: tensor \""+whole)
	_, err = x.ReadAt(make([]byte, 4), 0)
	require.ErrorContains(t, err, "is damaged: tensor \""+whole)
	require.NoError(t, c.Close())
	flip(columns)
	_, err = checkpoint.Open(dir)
	require.ErrorContains(t, err, "is damaged: tensor \""+columns)
}

// offsetOf returns where a tensor begins in a file.
func offsetOf(t *testing.T, path, name string) int64 {
	t.Helper()
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, x := range f.Tensors {
		if x.Name == name {
			return x.Offset
		}
	}
	t.Fatalf("%s has no tensor %q", path, name)
	return 0
}
