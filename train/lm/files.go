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
// number of an expert, there is one for each index of dimension 0. With transposed they are [out,in], as torch has the weights
// of linear layers, of w [..,in,out] f32; each is made when it is written.
func Tensors(name string, w array.Array, transposed bool) []tensor.Source {
	of := func(name string, w array.Array) tensor.Source {
		if !transposed {
			return tensor.Of(name, w)
		}
		rows, cols := w.Type.Shape[0], w.Type.Shape[1]
		return tensor.Source{Name: name, Type: graph.T(graph.F32, cols, rows), Write: func(to io.Writer) error {
			x, y := array.Data[float32](w), array.New(graph.T(graph.F32, cols, rows))
			for i, to := 0, array.Data[float32](y); i < rows; i++ {
				for j := range cols {
					to[j*rows+i] = x[i*cols+j]
				}
			}
			_, err := to.Write(y.Bytes())
			return err
		}}
	}
	if !strings.Contains(name, "*") {
		return []tensor.Source{of(name, w)}
	}
	var all []tensor.Source
	for e := range w.Type.Shape[0] {
		all = append(all, of(strings.Replace(name, "*", strconv.Itoa(e), 1), w.Rows(e, e+1).Reshape(w.Type.Shape[1:]...)))
	}
	return all
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
