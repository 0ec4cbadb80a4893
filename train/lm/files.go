package lm

import (
	"encoding/json"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
)

// Tensors returns the tensors of a parameter as files have it under a name. With a star in the name, which stands for the
// number of an expert, there is one for each index of dimension 0.
func Tensors(name string, w array.Array) []tensor.Source {
	if !strings.Contains(name, "*") {
		return []tensor.Source{tensor.Of(name, w)}
	}
	var all []tensor.Source
	for e := range w.Type.Shape[0] {
		all = append(all, tensor.Of(strings.Replace(name, "*", strconv.Itoa(e), 1), w.Rows(e, e+1).Reshape(w.Type.Shape[1:]...)))
	}
	return all
}

// Transposed returns w [..,in,out] of f32 as torch has the weights of linear layers: [..,out,in].
func Transposed(w array.Array) array.Array {
	shape := slices.Clone(w.Type.Shape)
	n := len(shape)
	rows, cols := shape[n-2], shape[n-1]
	shape[n-2], shape[n-1] = cols, rows
	t := array.New(graph.T(graph.F32, shape...))
	x, y := array.Data[float32](w), array.Data[float32](t)
	for at := 0; at < len(x); at += rows * cols {
		for i := range rows {
			for j := range cols {
				y[at+j*rows+i] = x[at+i*cols+j]
			}
		}
	}
	return t
}

// WriteModel writes a model to a folder in the form of Hugging Face, and returns the names of the files: model.safetensors,
// config.json with these members, and others, such as tokenizer.json.
func WriteModel(folder string, tensors []tensor.Source, config map[string]any, others map[string][]byte) ([]string, error) {
	if err := safetensors.Write(filepath.Join(folder, safetensors.FileName), map[string]string{"format": "pt"}, tensors); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, err
	}
	files := maps.Clone(others)
	files[checkpoint.ConfigName] = append(text, '\n')
	names := []string{safetensors.FileName}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := whole.Write(filepath.Join(folder, name), func(w io.Writer) error { _, err := w.Write(files[name]); return err })
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
