package safetensors

import (
	"fmt"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// File is an open safetensors file. Its methods except Close are safe for concurrent use.
type File struct {
	Metadata map[string]string // nil if the file has none
	Tensors  []tensor.Tensor   // in byte order

	mapped *tensor.Mapped
}

// Open maps a file and validates its header: lengths, overlaps, gaps and duplicate names. An error names the file,
// the tensor, the value found and the value expected. The bytes of tensors are read only when used. The caller must
// call Close.
func Open(path string) (*File, error) {
	m, err := tensor.Map(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	h, err := parse(m.Bytes())
	if err != nil {
		m.Close() // the error of the file is the one to report
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	f := &File{Metadata: h.metadata, mapped: m, Tensors: make([]tensor.Tensor, len(h.entries))}
	for i, e := range h.entries {
		t, _ := byName(e.dtype) // found by check before
		at, end := h.bytes+e.begin, h.bytes+e.end
		f.Tensors[i] = tensor.Tensor{
			Name: e.name, Type: graph.Type{DType: t.d, Shape: e.shape}, Stored: e.dtype,
			File: path, Offset: at, Mem: m.Bytes()[at:end:end],
		}
	}
	return f, nil
}

// Path returns the path given to Open.
func (f *File) Path() string { return f.mapped.Path() }

// Drop is tensor.Mapped.Drop for the bytes of a tensor.
func (f *File) Drop(part []byte) { f.mapped.Drop(part) }

// Close unmaps the file and invalidates its tensors.
func (f *File) Close() error { return f.mapped.Close() }
