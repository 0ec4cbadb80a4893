package snapshot

import (
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/internal/whole"
)

// Model says how the arrays of a snapshot are a model, or an adapter of one, that checkpoint.Open or peft.Open opens.
type Model struct {
	Tensors []parts.Tensor
	Files   map[string][]byte // by name, what a model's folder has beside the tensors: config.json, the tokenizer's files and the like
}

// listed returns what the manifest has of the model, nil if there is none.
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

// write writes what lies beside the parts, if there is a model.
func (m *Model) write(dir string) error {
	if m == nil {
		return nil
	}
	return whole.WriteAll(dir, m.Files)
}
