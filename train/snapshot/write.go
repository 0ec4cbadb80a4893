package snapshot

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/sharding"
)

// box is a part of an array written by this process.
type box struct {
	parts.Part
	of  graph.Type // type of the part
	mem []byte
}

// boxes returns the parts to be written by this process. They alias the arrays' memory.
func (p process) boxes(s State) ([]box, error) {
	var all []box
	for _, name := range slices.Sorted(maps.Keys(s.Arrays)) {
		a := s.Arrays[name]
		held, err := a.Parts()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(a.Spec.Pending) > 0 {
			return nil, fmt.Errorf("%s is a pending sum, %s; save it when a program has added it up", name, a.Spec.Format(a.Type))
		}
		if a.Type.DType.IsBlock() {
			return nil, fmt.Errorf("%s: %s: want an element type that is not in blocks", name, a.Type)
		}
		for _, h := range held {
			if !Writes(a.Spec, a.Mesh(), h.Rank, p.sites) || h.Type.Len() == 0 && (a.Type.Len() > 0 || h.Rank > 0 && p.sites == nil) {
				continue // an array without elements has one part, for its type
			}
			b := box{parts.Part{Tensor: name, Array: name, Shape: append([]int{}, a.Type.Shape...), Start: append([]int{}, h.Start...), Sums: []uint32{}}, h.Type, h.Bytes()}
			if !h.Type.Equal(a.Type) {
				b.Tensor = name + h.Box()
			}
			all = append(all, b)
		}
	}
	return all, nil
}

// write writes this process's file.
func (p process) write(at *pace, dir string, s State, boxes []box) (parts.File, error) {
	f := parts.File{Name: parts.FileName(p.n, p.of)}
	if p.sites != nil {
		f.Host = p.host
	}
	if err := whole.Folder(dir); err != nil {
		return f, err
	}
	list, tensors := make([]parts.Part, len(boxes)), []tensor.Source{}
	for i, b := range boxes {
		for piece := range slices.Chunk(b.mem, parts.Block) {
			if err := at.do(func() error { b.Sums = append(b.Sums, parts.Sum(piece)); return nil }); err != nil {
				return f, err
			}
		}
		list[i] = b.Part
		tensors = append(tensors, tensor.Source{Name: b.Tensor, Type: b.of, Write: func(w io.Writer) error {
			for piece := range slices.Chunk(b.mem, parts.Block/4) {
				if err := at.do(func() error { _, err := w.Write(piece); return err }); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	meta, sum, err := parts.Header(s.Step, list)
	if err != nil {
		return f, err
	}
	f.Parts = sum
	return f, safetensors.Write(filepath.Join(dir, f.Name), meta, tensors)
}

// Writes reports whether a rank writes its shard of an array with the given placement: it must be the lowest rank
// of those holding the shard and sharing the folder. sites is the result of Writer.Sites.
func Writes(spec sharding.Spec, m sharding.Mesh, rank int, sites []int) bool {
	axes := spec.Axes()
	for r := range rank {
		if (sites == nil || sites[r] == sites[rank]) && m.Index(r, axes) == m.Index(rank, axes) {
			return false
		}
	}
	return true
}
