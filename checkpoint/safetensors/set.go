package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// IndexName is the usual name of the index of a set; FileName is the usual name of a model in one file.
const (
	IndexName = "model.safetensors.index.json"
	FileName  = "model.safetensors"
)

// maxIndex is the maximum size of an index in bytes. The largest published one lists 100,000 tensors in 10 MB.
const maxIndex = 1 << 28

// index is the file listing the tensors of a set.
type index struct {
	Metadata  map[string]any    `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"` // file names by tensor name
}

// OpenSet opens the files listed by an index, which must be in the same folder. It is an error if a file lacks a
// tensor listed for it, or has one that the index does not list. The caller must call Close on every file.
func OpenSet(path string) ([]*File, error) {
	files, err := openSet(path)
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return files, nil
}

func openSet(path string) (files []*File, err error) {
	ix, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(ix.files())) {
		if !plain(name) {
			return files, fmt.Errorf("file %s, want a name without folders", quoted.Name(name))
		}
		f, err := Open(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			return files, err
		}
		files = append(files, f)
		has := map[string]bool{}
		for _, t := range f.Tensors {
			has[t.Name] = true
			if in, ok := ix.WeightMap[t.Name]; !ok {
				return files, fmt.Errorf("tensor %s is in %s and not in the index", quoted.Name(t.Name), name)
			} else if in != name {
				return files, fmt.Errorf("tensor %s is in %s, want it in %s, as the index says", quoted.Name(t.Name), name, quoted.Name(in))
			}
		}
		for _, t := range ix.files()[name] {
			if !has[t] {
				return files, fmt.Errorf("tensor %s is not in %s, where the index says it is", quoted.Name(t), name)
			}
		}
	}
	return files, nil
}

// plain reports whether a name in an index refers to a file in the index's folder.
func plain(name string) bool {
	return name == filepath.Base(name) && filepath.IsLocal(name) && name != "."
}

func readIndex(path string) (*index, error) {
	text, err := infile.Read(path, maxIndex)
	if err != nil {
		return nil, err
	}
	ix := &index{}
	if err := strictjson.Unmarshal(text, ix); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if len(ix.WeightMap) == 0 {
		return nil, errors.New("index: weight_map lists no tensors")
	}
	return ix, nil
}

// files returns the sorted names of tensors by file name.
func (ix *index) files() map[string][]string {
	files := map[string][]string{}
	for _, t := range slices.Sorted(maps.Keys(ix.WeightMap)) {
		files[ix.WeightMap[t]] = append(files[ix.WeightMap[t]], t)
	}
	return files
}

// Tensors returns the tensors of several files, in the order of the files.
func Tensors(files []*File) []tensor.Tensor {
	var ts []tensor.Tensor
	for _, f := range files {
		ts = append(ts, f.Tensors...)
	}
	return ts
}
