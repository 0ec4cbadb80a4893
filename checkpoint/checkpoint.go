package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/checkpoint/gguf"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
)

// File formats.
const (
	Safetensors = "safetensors"
	GGUF        = "gguf"
)

// Checkpoint is an open model. Its methods except Close are safe for concurrent use.
type Checkpoint struct {
	Path    string          // as given to Open, or the snapshot within a folder of the hub's cache
	Format  string          // Safetensors or GGUF
	Files   []string        // paths of the files holding tensors
	Tensors []tensor.Tensor // in file and byte order; names are unique
	Config  Config          // the model's settings

	byName map[string]int
	close  []func() error
	drop   []func(part []byte)

	mu     sync.Mutex
	holds  int  // calls of Hold not yet released
	closed bool // Close was called, and waits for holds
}

// Open opens the model at path: a folder, a .safetensors file, the index of several of them, or a .gguf file. In a
// folder of the hub's cache, such as models--org--name, it opens the snapshot named by refs/main, or the only one.
// In a folder it opens, in order of preference, a training checkpoint that is described as a model,
// model.safetensors, model.safetensors.index.json, the only .safetensors file, or the only .gguf file or set.
// Errors name the file and the expected content. The caller must call Close when no array of the model is in use
// any more.
func Open(path string) (*Checkpoint, error) {
	c := &Checkpoint{Path: path}
	if err := c.open(); err != nil {
		c.Close() // the first error is the one to report
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return c, nil
}

func (c *Checkpoint) open() error {
	var err error
	if c.Path, err = Snapshot(c.Path); err != nil {
		return err
	}
	file, err := find(c.Path)
	if err != nil {
		return err
	}
	var config Config
	if filepath.Base(file) == parts.ManifestName {
		config, err = c.openParts(filepath.Dir(file))
	} else if strings.HasSuffix(file, ".gguf") {
		config, err = c.openGGUF(file)
	} else {
		config, err = c.openSafetensors(file)
	}
	if err != nil {
		return err
	}
	c.Config = config
	c.byName = map[string]int{}
	for i, t := range c.Tensors {
		if j, ok := c.byName[t.Name]; ok {
			return fmt.Errorf("%s: tensor %s is in %s, too", t.File, quoted.Name(t.Name), c.Tensors[j].File)
		}
		c.byName[t.Name] = i
	}
	return nil
}

func (c *Checkpoint) openGGUF(path string) (Config, error) {
	files, err := gguf.OpenSet(path)
	if err != nil {
		return Config{}, err
	}
	for _, f := range files {
		c.close, c.drop, c.Files = append(c.close, f.Close), append(c.drop, f.Drop), append(c.Files, f.Path())
	}
	c.Format, c.Tensors = GGUF, gguf.Tensors(files)
	return keys(files[0]), nil
}

func (c *Checkpoint) openSafetensors(path string) (Config, error) {
	var files []*safetensors.File
	var err error
	if strings.HasSuffix(path, ".json") {
		files, err = safetensors.OpenSet(path)
	} else if f, one := safetensors.Open(path); one == nil {
		files = append(files, f)
	} else {
		err = one
	}
	if err != nil {
		return Config{}, err
	}
	for _, f := range files {
		c.close, c.drop, c.Files = append(c.close, f.Close), append(c.drop, f.Drop), append(c.Files, f.Path())
	}
	c.Format, c.Tensors = Safetensors, safetensors.Tensors(files)
	return ReadConfig(filepath.Join(filepath.Dir(path), ConfigName))
}

// Snapshot returns the folder of a model's files within a folder of the hub's cache, which contains snapshots and
// refs: the snapshot named by refs/main or, without it, the only one. It returns other paths unchanged.
func Snapshot(path string) (string, error) {
	const snapshots = "snapshots"
	if !has(path, snapshots) || !has(path, "refs") && !has(path, "blobs") {
		return path, nil
	}
	main := filepath.Join(path, "refs", "main")
	text, err := infile.Read(main, 1<<10)
	if err == nil {
		name := strings.TrimSpace(string(text))
		if !filepath.IsLocal(name) || !has(path, filepath.Join(snapshots, name)) {
			return "", fmt.Errorf("%s: it names snapshot %s, which is not in %s; fetch the model again, or give a snapshot's path", main, quoted.Name(name), filepath.Join(path, snapshots))
		}
		return filepath.Join(path, snapshots, name), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	entries, err := os.ReadDir(filepath.Join(path, snapshots))
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%s: %d snapshots, and no refs/main says which one to take; give the path of one of them", path, len(entries))
	}
	return filepath.Join(path, snapshots, entries[0].Name()), nil
}

// find returns the file to open: path itself, or a file in the folder path.
func find(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return named(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return parts.IsFile(e.Name()) }) {
		if !has(path, parts.ManifestName) {
			return "", fmt.Errorf("%s: a checkpoint of a training run without %s: it is not complete, or its run is removing it; take one that has that file", path, parts.ManifestName)
		}
		return filepath.Join(path, parts.ManifestName), nil
	}
	var tensors, ggufs []string
	var pickle string // the first file of PyTorch
	for _, e := range entries {
		switch name := e.Name(); {
		case name == safetensors.FileName:
			return filepath.Join(path, name), nil
		case strings.HasSuffix(name, ".safetensors"):
			tensors = append(tensors, name)
		case strings.HasSuffix(name, ".gguf") && (!strings.Contains(name, "-of-") || strings.Contains(name, "-00001-of-")):
			ggufs = append(ggufs, name)
		case pickle == "" && (strings.HasPrefix(name, "pytorch_model") && strings.HasSuffix(name, ".bin") || strings.HasSuffix(name, ".pth")):
			pickle = name
		}
	}
	if _, err := os.Stat(filepath.Join(path, safetensors.IndexName)); err == nil {
		return filepath.Join(path, safetensors.IndexName), nil
	}
	for _, names := range [][]string{tensors, ggufs} {
		if len(names) == 1 {
			return filepath.Join(path, names[0]), nil
		} else if len(names) > 1 {
			return "", fmt.Errorf("%s: the folder has %d models %s, want one, or the path of one of them", path, len(names), quoted.List(names))
		}
	}
	if newest := run(path); newest != "" {
		return "", fmt.Errorf("%s: no model in the folder, but checkpoints of a training run, which writes its model when it ends; each is a model, too: the newest is %s", path, newest)
	}
	if pickle != "" {
		return "", fmt.Errorf("%s: %s is a pickle file of PyTorch, want %s or %s; load the model with transformers and save it with save_pretrained(..., safe_serialization=True)", path, pickle, safetensors.FileName, safetensors.IndexName)
	}
	return "", fmt.Errorf("%s: no model in the folder, want %s, %s, or a file that ends with .safetensors or .gguf", path, safetensors.FileName, safetensors.IndexName)
}

func has(path, name string) bool {
	_, err := os.Lstat(filepath.Join(path, name))
	return err == nil
}

// named returns path if the suffix of its name identifies a format.
func named(path string) (string, error) {
	for _, end := range []string{".safetensors", ".gguf", ".safetensors.index.json"} {
		if strings.HasSuffix(path, end) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: want a folder, or a file whose name ends with .safetensors, .gguf or .safetensors.index.json", path)
}

// Has reports whether a tensor exists.
func (c *Checkpoint) Has(name string) bool {
	_, ok := c.byName[name]
	return ok
}

// Tensor returns a tensor by name. If there is none, the error proposes a similar name.
func (c *Checkpoint) Tensor(name string) (tensor.Tensor, error) {
	if i, ok := c.byName[name]; ok {
		return c.Tensors[i], nil
	}
	names := slices.Sorted(maps.Keys(c.byName))
	hint := near.Names(name, slices.Values(names))
	for _, n := range names {
		if hint == "" && n != "" && (strings.HasSuffix(n, "."+name) || strings.HasSuffix(name, "."+n)) {
			hint = fmt.Sprintf("; there is %s, so names have another prefix: rename the tensors", quoted.Name(n))
		}
	}
	return tensor.Tensor{}, fmt.Errorf("checkpoint: %s: there is no tensor %s%s", c.Path, quoted.Name(name), hint)
}

// Hold keeps the files mapped until release is called, even after Close, for arrays aliasing them. release may be
// called more than once.
func (c *Checkpoint) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.holds--; c.holds == 0 && c.closed {
			c.unmap() // there is no caller to return an error to
		}
	})
}

// Drop releases the memory of a tensor's mapped bytes, for example after copying them. They are read from disk again
// when they are used.
func (c *Checkpoint) Drop(t tensor.Tensor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, drop := range c.drop {
		drop(t.Mem)
	}
}

// Close invalidates the files and all arrays aliasing them. Files that are held stay mapped until released.
func (c *Checkpoint) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.holds > 0 {
		return nil
	}
	return c.unmap()
}

func (c *Checkpoint) unmap() error {
	var errs []error
	for _, f := range c.close {
		errs = append(errs, f())
	}
	c.close, c.drop = nil, nil
	return errors.Join(errs...)
}
