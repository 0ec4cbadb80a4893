package tensor

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
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
}

// Array returns the tensor as an array that shares the bytes of the file. What is written
// to it does not reach the file. It is an error if gomoe has no such element type.
func (t Tensor) Array() (array.Array, error) {
	if t.Type.DType == graph.NoDType {
		return array.Array{}, fmt.Errorf("%s: tensor %q: element type %s, which gomoe does not calculate with; convert the file", t.File, t.Name, t.Stored)
	}
	if err := t.Type.Check(); err != nil {
		return array.Array{}, fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
	}
	return array.Over(t.Type, t.Mem), nil
}
