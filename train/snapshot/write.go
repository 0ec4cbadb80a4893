package snapshot

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"

	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/runtime"
)

// part is a box of an array, which is a tensor of a file.
type part struct {
	Tensor string   `json:"tensor"` // its name in the file
	Array  string   `json:"array"`  // the name of the array
	Shape  []int    `json:"shape"`  // of the array
	Start  []int    `json:"start"`  // where the box begins
	Sums   []uint32 `json:"sums"`   // CRC-32C of every block of the tensor's bytes
}

const (
	format      = "gomoe snapshot 1"
	formatField = "format"
	stepField   = "step"
	partsField  = "parts"

	// block is how many bytes a checksum is of. A process that needs a row reads the blocks
	// that the row lies in.
	block = 1 << 20
)

func fileName(n, of int) string { return fmt.Sprintf("part-%05d-of-%05d.safetensors", n+1, of) }

// write writes what this process holds.
func (p process) write(dir string, s State) error {
	if err := whole.Folder(dir); err != nil {
		return err
	}
	parts, tensors := []part{}, []tensor.Source{}
	for _, name := range slices.Sorted(maps.Keys(s.Arrays)) {
		a := s.Arrays[name]
		held, err := a.Parts()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(a.Spec.Pending) > 0 {
			return fmt.Errorf("%s is a pending sum, %s; save it when a program has added it up", name, a.Spec.Format(a.Type))
		}
		if a.Type.DType.IsBlock() {
			return fmt.Errorf("%s: %s: want an element type that is not in blocks", name, a.Type)
		}
		for _, h := range held {
			if !owner(a, h.Rank) || h.Type.Len() == 0 && (a.Type.Len() > 0 || h.Rank > 0) {
				continue // an array without elements is one part, for its type
			}
			q := part{name, name, append([]int{}, a.Type.Shape...), append([]int{}, h.Start...), sums(h.Bytes())}
			if !h.Type.Equal(a.Type) {
				q.Tensor = name + h.Box()
			}
			parts, tensors = append(parts, q), append(tensors, tensor.Of(q.Tensor, h.Array))
		}
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	meta := map[string]string{formatField: format, stepField: strconv.Itoa(s.Step), partsField: string(text)}
	err = safetensors.Write(filepath.Join(dir, fileName(p.n, p.of)), meta, tensors)
	goruntime.KeepAlive(s.Arrays) // they own the memory of the parts
	return err
}

// owner reports whether a rank is the lowest of those that hold the same part of an array.
func owner(a *runtime.Array, rank int) bool {
	m, axes := a.Mesh(), a.Spec.Axes()
	for r := range rank {
		if m.Index(r, axes) == m.Index(rank, axes) {
			return false
		}
	}
	return true
}

// sums returns the checksum of every block.
func sums(mem []byte) []uint32 {
	all := []uint32{}
	for chunk := range slices.Chunk(mem, block) {
		all = append(all, crc32.Checksum(chunk, crc32.MakeTable(crc32.Castagnoli)))
	}
	return all
}
