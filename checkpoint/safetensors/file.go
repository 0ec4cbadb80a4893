package safetensors

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// File is an open safetensors file. Its methods but Close are safe for concurrent use.
type File struct {
	Metadata map[string]string // nil if the file has none
	Tensors  []tensor.Tensor   // in the order of their bytes

	mapped *tensor.Mapped
}

// Open maps a file and checks its header against the file: lengths, overlaps, gaps and names that
// stand there twice. An error names the file, the tensor, what it has and what is wanted. The bytes of
// tensors are not read before they are used. The caller must call Close.
func Open(path string) (*File, error) {
	m, err := tensor.Map(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	h, err := parse(m.Bytes())
	if err != nil {
		m.Close() // the file's own error is the one to report
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	f := &File{Metadata: h.metadata, mapped: m, Tensors: make([]tensor.Tensor, len(h.entries))}
	for i, e := range h.entries {
		t, _ := byName(e.dtype) // check has found it
		at, end := h.bytes+e.begin, h.bytes+e.end
		f.Tensors[i] = tensor.Tensor{
			Name: e.name, Type: graph.Type{DType: t.d, Shape: e.shape}, Stored: e.dtype,
			File: path, Offset: at, Mem: m.Bytes()[at:end:end],
		}
	}
	return f, nil
}

// Path returns the path that the file was opened with.
func (f *File) Path() string { return f.mapped.Path() }

// Drop is tensor.Mapped.Drop for bytes of tensors.
func (f *File) Drop(part []byte) { f.mapped.Drop(part) }

// Close ends the use of the file and of its tensors.
func (f *File) Close() error { return f.mapped.Close() }
