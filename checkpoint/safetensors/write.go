package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/internal/whole"
)

// Write writes tensors to a file, replacing it atomically: after an error the old file is unchanged. Wide element
// types come first, so that every tensor is aligned; tensors of equal width keep their order. It is an error if two
// tensors have the same name, or if the format does not support an element type.
func Write(path string, metadata map[string]string, tensors []tensor.Source) error {
	err := whole.Write(path, func(w io.Writer) error { return write(w, metadata, tensors) })
	if err != nil {
		return fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return nil
}

func write(w io.Writer, metadata map[string]string, tensors []tensor.Source) error {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b tensor.Source) int {
		return cmp.Compare(b.Type.DType.Size(), a.Type.DType.Size())
	})
	text, err := encode(metadata, tensors)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.Copy(w); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the header with its length, padded to a multiple of 8 bytes.
func encode(metadata map[string]string, tensors []tensor.Source) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if metadata != nil {
		fmt.Fprintf(&b, "%q:", metadataKey)
		text, err := json.Marshal(metadata)
		if err != nil {
			return nil, err
		}
		b.Write(text)
	}
	seen, at := map[string]bool{metadataKey: true}, int64(0)
	for _, t := range tensors {
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q: the name is used twice", t.Name)
		}
		seen[t.Name] = true
		if !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor %q: the name is not UTF-8", t.Name)
		}
		if err := t.Type.Check(); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		d, ok := TypeName(t.Type.DType)
		if !ok {
			return nil, fmt.Errorf("tensor %q: the format has no element type %s; convert it, or write a GGUF file", t.Name, t.Type.DType)
		}
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, err
		}
		shape, err := json.Marshal(append([]int{}, t.Type.Shape...))
		if err != nil {
			return nil, err
		}
		if b.Len() > 9 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, d, shape, at, at+t.Type.Bytes())
		at += t.Type.Bytes()
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	text := b.Bytes()
	if len(text)-8 > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes, want at most %d; write a set of files", len(text)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(text, uint64(len(text)-8))
	return text, nil
}

// WriteSet writes tensors, in their order, to an existing folder. If they have at most limit bytes, it writes
// FileName; otherwise it writes several files of at most limit bytes each, except for single larger tensors, and
// the index IndexName. Existing files of these names are replaced. If WriteSet fails while writing several files,
// the folder has no index, and so no set.
func WriteSet(folder string, metadata map[string]string, tensors []tensor.Source, limit int64) error {
	parts := split(tensors, limit)
	single, list := filepath.Join(folder, FileName), filepath.Join(folder, IndexName)
	old := oldParts(list)
	if len(parts) == 1 {
		if err := Write(single, metadata, tensors); err != nil {
			return err
		}
		return remove(append(old, list)...)
	}
	ix, total := index{WeightMap: map[string]string{}}, int64(0)
	if err := remove(append(old, list, single)...); err != nil {
		return err
	}
	for i, part := range parts {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(parts))
		if err := Write(filepath.Join(folder, name), metadata, part); err != nil {
			return err
		}
		for _, t := range part {
			if _, ok := ix.WeightMap[t.Name]; ok {
				return fmt.Errorf("safetensors: %s: tensor %q: the name is used twice", folder, t.Name)
			}
			ix.WeightMap[t.Name] = name
			total += t.Type.Bytes()
		}
	}
	ix.Metadata = map[string]any{"total_size": total}
	err := whole.Write(list, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(ix)
	})
	if err != nil {
		return fmt.Errorf("safetensors: %s: %w", list, err)
	}
	return nil
}

// oldParts returns the paths of the files listed by an existing index.
func oldParts(list string) []string {
	ix, err := readIndex(list)
	if err != nil {
		return nil // not a readable set
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(ix.files())) {
		if plain(name) {
			paths = append(paths, filepath.Join(filepath.Dir(list), name))
		}
	}
	return paths
}

// split splits tensors into runs of at most limit bytes, or of a single tensor.
func split(tensors []tensor.Source, limit int64) [][]tensor.Source {
	parts, at, n := [][]tensor.Source{}, 0, int64(0)
	for i, t := range tensors {
		if n += t.Type.Bytes(); n > limit && i > at {
			parts = append(parts, tensors[at:i])
			at, n = i, t.Type.Bytes()
		}
	}
	return append(parts, tensors[at:])
}

// remove removes files in reverse order, so that the index of a set is removed before its parts.
func remove(paths ...string) error {
	for _, path := range slices.Backward(paths) {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("safetensors: %w", err)
		}
	}
	return nil
}
