package gguf

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Keys of a file in a set.
const (
	splitKey   = "split.no"            // number of the file, from 0
	countKey   = "split.count"         // number of files
	tensorsKey = "split.tensors.count" // number of tensors in all files
)

// maxFiles is the maximum number of files in a set, given the five digits in their names.
const maxFiles = 99999

// OpenSet opens a file and, if it belongs to a set, the other files, which must be in the same folder under the
// names of llama.cpp's gguf-split: NAME-00001-of-00003.gguf. It returns them in order; the first one has the keys.
// The caller must call Close on every file.
func OpenSet(path string) ([]*File, error) {
	files, err := openSet(path)
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, err
	}
	return files, nil
}

func openSet(path string) (files []*File, err error) {
	one, err := Open(path)
	if err != nil {
		return nil, err
	}
	files = []*File{one}
	n, ok := one.Int(countKey)
	if !ok || n == 1 {
		return files, nil
	}
	no, _ := one.Int(splitKey)
	tail := fmt.Sprintf("-%05d-of-%05d.gguf", no+1, n)
	if n < 1 || n > maxFiles || no < 0 || no >= n || !strings.HasSuffix(path, tail) {
		return files, fmt.Errorf("gguf: %s: the file is number %d of %d by its keys, want a name that ends with %s", path, no+1, n, tail)
	}
	files = files[:0]
	for i := range n {
		f := one
		if i != no {
			if f, err = Open(fmt.Sprintf("%s-%05d-of-%05d.gguf", strings.TrimSuffix(path, tail), i+1, n)); err != nil {
				if i <= no {
					files = append(files, one)
				}
				return files, err
			}
		}
		files = append(files, f)
	}
	return files, checkSet(files)
}

// checkSet checks that the files are the parts of one model.
func checkSet(files []*File) error {
	in, total := map[string]string{}, 0
	for i, f := range files {
		n, _ := f.Int(countKey)
		if no, ok := f.Int(splitKey); !ok || no != i || n != len(files) {
			return fmt.Errorf("gguf: %s: the file is number %d of %d by its keys, want %d of %d", f.path, no+1, n, i+1, len(files))
		}
		for _, t := range f.Tensors {
			if other, ok := in[t.Name]; ok {
				return fmt.Errorf("gguf: %s: tensor %s is in %s, too", f.path, quoted.Text(t.Name), other)
			}
			in[t.Name] = f.path
		}
		total += len(f.Tensors)
	}
	if want, ok := files[0].Int(tensorsKey); ok && want != total {
		return fmt.Errorf("gguf: %s: %d tensors in %d files, want %d, as its key %q says", files[0].path, total, len(files), want, tensorsKey)
	}
	return nil
}

// Tensors returns the tensors of several files, in the order of the files.
func Tensors(files []*File) []tensor.Tensor {
	var ts []tensor.Tensor
	for _, f := range files {
		ts = append(ts, f.Tensors...)
	}
	return ts
}
