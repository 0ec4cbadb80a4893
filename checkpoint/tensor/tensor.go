package tensor

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Tensor is a named array in a file. It aliases the mapped file, so its bytes are read from disk on first use.
type Tensor struct {
	Name   string
	Type   graph.Type // without element type if gomoe has none for Stored
	Stored string     // the file's name of the element type, such as BF16 or Q4_K
	File   string     // path of the file
	Offset int64      // of the first byte in the file
	Mem    []byte     // bytes in the file, which must not be used after closing it
	// Check verifies the checksums of Mem[lo:hi]; it is safe for concurrent use, and nil if the file has no checksums.
	// Array and ReadAt call it; code reading Mem directly must do so as well.
	Check func(lo, hi int) error
}

// Array returns the tensor as an array aliasing the file's bytes. Writes to it do not reach the file. It is an
// error if gomoe has no such element type, or if the bytes are damaged.
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

// Sound returns an error if Mem[lo:hi] is damaged according to its checksums.
func (t Tensor) Sound(lo, hi int) error {
	if t.Check == nil {
		return nil
	}
	return t.Check(lo, hi)
}

// ReadAt implements io.ReaderAt over Mem. It returns an error if the bytes are damaged.
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

// Together returns the bytes of tensors that are adjacent in a file, in this order, or nil if they are not. The
// bytes must not be used after closing the file.
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
