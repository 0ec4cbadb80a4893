package snapshot

import (
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/internal/whole"
)

// Model describes the arrays of a snapshot as a model, or as an adapter, for checkpoint.Open or peft.Open.
type Model struct {
	Tensors []parts.Tensor
	Files   map[string][]byte // files of the model's folder other than tensors, by name: config.json, the tokenizer's files and the like
}

// listed returns the model's entry in the manifest, nil if there is no model.
func (m *Model) listed() *parts.Model {
	if m == nil {
		return nil
	}
	list := &parts.Model{Tensors: m.Tensors, Files: map[string]string{}}
	for name, text := range m.Files {
		list.Files[name] = parts.Hash(text)
	}
	return list
}

// write writes the files other than tensors, if there is a model.
func (m *Model) write(dir string) error {
	if m == nil {
		return nil
	}
	return whole.WriteAll(dir, m.Files)
}
