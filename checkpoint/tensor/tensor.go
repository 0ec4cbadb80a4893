package tensor

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Tensor is a named array in a file. Its bytes are those of the file, which are read from
// the disk when they are used for the first time.
type Tensor struct {
	Name   string
	Type   graph.Type // without element type if gomoe has none for Stored
	Stored string     // what the file calls the element type, such as BF16 or Q4_K
	File   string     // the path of the file
	Offset int64      // of the first byte in the file
	Mem    []byte     // the bytes in the file; they must not be used after the file is closed
	// Check compares Mem[lo:hi] with checksums, and is safe for concurrent use; nil if the file has none. Array and ReadAt call it,
	// and whoever uses Mem itself does.
	Check func(lo, hi int) error
}

// Array returns the tensor as an array that shares the bytes of the file. What is written
// to it does not reach the file. It is an error if gomoe has no such element type, or if the bytes are damaged.
func (t Tensor) Array() (array.Array, error) {
	if t.Type.DType == graph.NoDType {
		return array.Array{}, fmt.Errorf("%s: tensor %s: element type %s, which gomoe does not calculate with; convert the file", t.File, quoted.Name(t.Name), t.Stored)
	}
	if err := t.Type.Check(); err != nil {
		return array.Array{}, fmt.Errorf("%s: tensor %s: %w", t.File, quoted.Name(t.Name), err)
	}
	if err := t.Sound(0, len(t.Mem)); err != nil {
		return array.Array{}, err
	}
	return array.Over(t.Type, t.Mem), nil
}

// Sound returns an error if checksums say that Mem[lo:hi] is damaged.
func (t Tensor) Sound(lo, hi int) error {
	if t.Check == nil {
		return nil
	}
	return t.Check(lo, hi)
}

// ReadAt copies bytes from Mem[off:] on. It implements io.ReaderAt; it is an error, too, if they are damaged.
func (t Tensor) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(t.Mem)) {
		return 0, fmt.Errorf("%s: tensor %s: byte %d of %d", t.File, quoted.Name(t.Name), off, len(t.Mem))
	}
	n := copy(p, t.Mem[off:])
	if err := t.Sound(int(off), int(off)+n); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Together returns the bytes of tensors that lie in a file one behind the other, in this order, and nil of others. Like Mem it
// must not be used after the file is closed.
func Together(ts []Tensor) []byte {
	if len(ts) == 0 {
		return nil
	}
	first, n := unsafe.SliceData(ts[0].Mem), 0
	for _, t := range ts {
		if t.File != ts[0].File || t.Offset != ts[0].Offset+int64(n) || unsafe.SliceData(t.Mem) != (*byte)(unsafe.Add(unsafe.Pointer(first), n)) {
			return nil
		}
		n += len(t.Mem)
	}
	return unsafe.Slice(first, n)
}
