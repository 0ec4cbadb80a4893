package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

const (
	magic = "GGUF"
	// maxRank is ggml's maximum number of dimensions.
	maxRank = 4
	// alignment is the default alignment of tensors; the key alignmentKey overrides it.
	alignment    = 32
	alignmentKey = "general.alignment"
)

// File is an open GGUF file. Its methods except Close are safe for concurrent use.
type File struct {
	Version int
	Meta    []Meta          // in file order; keys are unique
	Tensors []tensor.Tensor // in byte order, with row-major shapes: ggml's dimensions reversed

	path   string
	mapped *tensor.Mapped
}

// Open maps a file and validates its keys and tensors: lengths, overlaps, gaps and duplicate names. An error names
// the file, the key or tensor, the value found and the value expected. The bytes of tensors are read only when
// used. The caller must call Close.
func Open(path string) (*File, error) {
	m, err := tensor.Map(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := parse(m.Bytes(), path)
	if err != nil {
		m.Close() // the error of the file is the one to report
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f.mapped = m
	return f, nil
}

// Path returns the path given to Open.
func (f *File) Path() string { return f.path }

// Drop is tensor.Mapped.Drop for the bytes of a tensor.
func (f *File) Drop(part []byte) { f.mapped.Drop(part) }

// Close unmaps the file and invalidates its tensors.
func (f *File) Close() error { return f.mapped.Close() }

func parse(mem []byte, path string) (*File, error) {
	if len(mem) < len(magic) || string(mem[:len(magic)]) != magic {
		return nil, errors.New("the file does not begin with GGUF; this is no GGUF file")
	}
	c := &cursor{mem: mem, at: len(magic)}
	version := scalar[uint32](c)
	switch {
	case c.err != nil:
		return nil, fmt.Errorf("version: %w", c.err)
	case version != 2 && version != 3 && bits.ReverseBytes32(version) <= 3:
		return nil, errors.New("the file is big-endian, want little-endian")
	case version != 2 && version != 3:
		return nil, fmt.Errorf("version %d, want 2 or 3; convert the file with llama.cpp's scripts", version)
	}
	f := &File{Version: int(version), path: path}
	tensors, keys := scalar[uint64](c), scalar[uint64](c)
	if c.err != nil {
		return nil, fmt.Errorf("numbers of tensors and keys: %w", c.err)
	}
	if err := f.readMeta(c, keys); err != nil {
		return nil, err
	}
	at := uint64(alignment)
	if v, ok := f.Value(alignmentKey); ok {
		n, ok := f.Int(alignmentKey)
		if !ok || n <= 0 || n > math.MaxInt32 || n&(n-1) != 0 {
			return nil, fmt.Errorf("key %q: %s, want a power of two", alignmentKey, quoted.Text(fmt.Sprint(v)))
		}
		at = uint64(n)
	}
	return f, f.readTensors(c, tensors, at)
}

// readMeta reads n keys. If n is too large, it fails at the end of the file.
func (f *File) readMeta(c *cursor, n uint64) error {
	seen := map[string]bool{}
	for i := range n {
		key := c.text()
		kind := scalar[uint32](c)
		if c.err != nil {
			return fmt.Errorf("key %d of %d: %w", i+1, n, c.err)
		}
		if seen[key] {
			return fmt.Errorf("key %s is there twice", quoted.Text(key))
		}
		seen[key] = true
		v, err := c.value(kind)
		if err != nil {
			return fmt.Errorf("key %s: %w", quoted.Text(key), err)
		}
		f.Meta = append(f.Meta, Meta{key, v})
	}
	return nil
}

// readTensors reads n tensor descriptions, and locates the bytes following them.
func (f *File) readTensors(c *cursor, n, alignment uint64) error {
	seen := map[string]bool{}
	sizes := map[string]int64{}
	for i := range n {
		t, offset, size, err := readTensor(c)
		if c.err != nil {
			return fmt.Errorf("tensor %d of %d: %w", i+1, n, c.err)
		}
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quoted.Text(t.Name), err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %s is there twice", quoted.Text(t.Name))
		}
		seen[t.Name] = true
		if offset%alignment != 0 {
			return fmt.Errorf("tensor %s: begins at byte %d, want a multiple of %d", quoted.Text(t.Name), offset, alignment)
		}
		t.File, t.Offset = f.path, int64(offset)
		sizes[t.Name] = size
		f.Tensors = append(f.Tensors, t)
	}
	slices.SortStableFunc(f.Tensors, func(a, b tensor.Tensor) int {
		if a.Offset != b.Offset {
			return cmp.Compare(a.Offset, b.Offset)
		}
		return cmp.Compare(sizes[a.Name], sizes[b.Name])
	})
	start := up(int64(c.at), int64(alignment))
	all := max(0, int64(len(c.mem))-start)
	at, last := int64(0), "" // end of the preceding tensors, and the name of the last one
	for i := range f.Tensors {
		t := &f.Tensors[i]
		size := sizes[t.Name]
		switch {
		case t.Offset < at:
			return fmt.Errorf("tensor %s: begins at byte %d, inside of tensor %s, which ends at %d", quoted.Text(t.Name), t.Offset, quoted.Text(last), at)
		case t.Offset > up(at, int64(alignment)):
			return fmt.Errorf("tensor %s: begins at byte %d, want %d: bytes before it belong to no tensor", quoted.Text(t.Name), t.Offset, up(at, int64(alignment)))
		case size > all-t.Offset:
			return fmt.Errorf("tensor %s: %d bytes at byte %d of %d; the file is cut short", quoted.Text(t.Name), size, t.Offset, all)
		}
		if at = t.Offset + size; size > 0 {
			last = t.Name
		}
		if t.Offset += start; size > 0 { // a tensor without elements may begin after the end of the file
			t.Mem = c.mem[t.Offset:][:size:size]
		}
	}
	if end := up(at, int64(alignment)); all > end {
		return fmt.Errorf("%d bytes behind the last tensor, want none", all-end)
	}
	return nil
}

func up(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// readTensor reads the description of a tensor. It returns the tensor's offset, relative to the start of all tensor
// data, and its size in bytes.
func readTensor(c *cursor) (t tensor.Tensor, offset uint64, size int64, err error) {
	t.Name = c.text()
	rank := scalar[uint32](c)
	if c.err == nil && (rank < 1 || rank > maxRank) {
		return t, 0, 0, fmt.Errorf("%d dimensions, want 1 to %d", rank, maxRank)
	}
	dims := make([]uint64, min(rank, maxRank))
	for i := range dims {
		dims[i] = scalar[uint64](c)
	}
	id := scalar[uint32](c)
	offset = scalar[uint64](c)
	if c.err != nil {
		return t, 0, 0, c.err
	}
	d, ok := byID(id)
	if !ok {
		return t, 0, 0, fmt.Errorf("element type %d is unknown, want one that ggml has", id)
	}
	if offset > math.MaxInt64/2 {
		return t, 0, 0, fmt.Errorf("begins at byte %d, which no file has", offset)
	}
	t.Stored = d.name
	t.Type = graph.Type{DType: d.graphType()}
	n := int64(1)
	for i := range dims {
		dim := dims[len(dims)-1-i]
		if dim > math.MaxInt32 && dim > math.MaxInt || dim != 0 && n > math.MaxInt64/2/int64(min(dim, math.MaxInt64/2)) {
			return t, 0, 0, fmt.Errorf("dimensions %v have more elements than fit in 62 bits", dims)
		}
		n *= int64(dim)
		t.Type.Shape = append(t.Type.Shape, int(dim))
	}
	if dims[0]%uint64(d.elements) != 0 {
		return t, 0, 0, fmt.Errorf("%d columns of %s, want a multiple of %d", dims[0], d.name, d.elements)
	}
	if blocks := n / d.elements; blocks > math.MaxInt64/2/d.bytes {
		return t, 0, 0, fmt.Errorf("%s of dimensions %v has more bytes than fit in 62 bits", d.name, dims)
	} else {
		size = blocks * d.bytes
	}
	return t, offset, size, nil
}
