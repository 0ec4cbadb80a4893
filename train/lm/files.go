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
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/train"
	"github.com/gomoe/gomoe/train/snapshot"
)

// AllName is the folder in Training.Out for the model of a training that begins with one.
const AllName = "model"

// Results sets Saves.Made to name in the folder of a run, and Saves.Others to the weights of models and adapters of
// other names.
func Results(s *train.Saves, out, name string) {
	s.Made, s.Others = nil, nil
	for _, other := range []string{safetensors.FileName, safetensors.IndexName, peft.FileName, peft.MLXName, AllName} {
		if path := filepath.Join(out, other); other == name {
			s.Made = append(s.Made, path)
		} else {
			s.Others = append(s.Others, path)
		}
	}
}

// Tensors returns a parameter as tensors for a file. If name contains a star, which stands for the number of an
// expert, there is one tensor for each index of dimension 0. If transposed is set, weights w [..,in,out] are stored
// as [out,in], as torch stores linear layers; each is transposed while writing.
func Tensors(name string, w array.Array, transposed bool) []tensor.Source {
	of := func(name string, w array.Array) tensor.Source {
		if !transposed {
			return tensor.Of(name, w)
		}
		shape := w.Type.Shape
		return tensor.Source{Name: name, Type: graph.T(w.Type.DType, shape[1], shape[0]), Write: func(to io.Writer) error {
			_, err := to.Write(w.Transposed().Bytes())
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

// WriteModel writes a model to a folder in the Hugging Face format and returns the names of the files:
// model.safetensors, config.json with the given entries, and others, such as tokenizer.json.
func WriteModel(folder string, tensors []tensor.Source, config map[string]any, others map[string][]byte) ([]string, error) {
	if err := safetensors.Write(filepath.Join(folder, safetensors.FileName), map[string]string{"format": "pt"}, tensors); err != nil {
		return nil, err
	}
	files, err := otherFiles(config, others)
	if err != nil {
		return nil, err
	}
	return append([]string{safetensors.FileName}, slices.Sorted(maps.Keys(files))...), whole.WriteAll(folder, files)
}

// otherFiles returns the files of a model other than its tensors, by name.
func otherFiles(config map[string]any, others map[string][]byte) (map[string][]byte, error) {
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	maps.Copy(files, others)
	files[checkpoint.ConfigName] = append(text, '\n')
	return files, nil
}

// SavedModel returns a value for Loop.Saves.As, which makes a run's checkpoints readable as its model. name maps a
// parameter to its name in files, as for Tensors; config and others are as for WriteModel.
func SavedModel(params []nn.Param, name func(param string) (name string, transposed bool), config map[string]any, others map[string][]byte) (*snapshot.Model, error) {
	files, err := otherFiles(config, others)
	if err != nil {
		return nil, err
	}
	m := &snapshot.Model{Files: files}
	for _, p := range params {
		in, transposed := name(p.Name)
		m.Tensors = append(m.Tensors, parts.Tensor{Array: p.Name, Name: in, Transposed: transposed})
	}
	return m, nil
}
