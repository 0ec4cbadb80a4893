package parts

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// Tensors returns the tensors of the checkpoint's model. Contiguous tensors alias the files, and their checksums
// are verified when they are used; others, such as matrices with columns stored by several ranks, are assembled in
// memory. It is an error if the checkpoint does not describe a model, if a part is on another host, or if assembled
// bytes are damaged.
func (s *Set) Tensors() ([]tensor.Tensor, error) {
	if s.Model == nil {
		return nil, fmt.Errorf("%s: the checkpoint does not say how it is a model", s.Path)
	}
	if err := errors.Join(s.Model.check(s.Types()), s.Model.files(s.Path)); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	var all []tensor.Tensor
	var jobs []func() error
	for _, t := range s.Model.Tensors {
		whole := s.arrays[t.Array].t
		n := 1
		if strings.Contains(t.Name, "*") {
			n = whole.Shape[0]
		}
		for i := range n {
			at := len(all)
			all = append(all, tensor.Tensor{})
			jobs = append(jobs, func() (err error) { all[at], err = s.tensor(t, whole, i); return err })
		}
	}
	return all, together(jobs)
}

// together runs jobs on several goroutines, and returns the first error in order of jobs.
func together(jobs []func() error) error {
	errs := make([]error, len(jobs))
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	var done sync.WaitGroup
	for worker := range workers {
		done.Go(func() {
			for i := worker; i < len(jobs); i += workers {
				errs[i] = jobs[i]()
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tensor returns the tensor for an array of type whole, or for index i of its dimension 0 if the name has a star.
func (s *Set) tensor(t Tensor, whole graph.Type, i int) (tensor.Tensor, error) {
	name, of := t.Name, whole
	start, box := make([]int, whole.Rank()), whole
	if strings.Contains(t.Name, "*") {
		name = strings.Replace(t.Name, "*", strconv.Itoa(i), 1)
		of = graph.T(whole.DType, whole.Shape[1:]...)
		box = graph.T(whole.DType, append([]int{1}, of.Shape...)...)
		start[0] = i
	}
	stored, ok := safetensors.TypeName(whole.DType)
	if !ok {
		return tensor.Tensor{}, fmt.Errorf("%s: %s: %s: model's files have no such element type", s.Path, t.Array, whole)
	}
	out := tensor.Tensor{Name: name, Type: of, Stored: stored}
	if !t.Transposed && t.Halves == 0 {
		for _, p := range s.arrays[t.Array].parts {
			mem, from, ok := p.inside(start, box.Shape)
			if !ok {
				continue
			}
			out.File, out.Offset, out.Mem = p.File, p.Offset+int64(from), mem
			out.Check = func(lo, hi int) error {
				if err := p.sound(from+lo, from+hi); err != nil {
					return fmt.Errorf("%s: %w", s.Path, err)
				}
				return nil
			}
			return out, nil
		}
	}
	a := array.New(box)
	if err := s.Read(t.Array, whole, a, start); err != nil {
		return out, err
	}
	a = a.Reshape(of.Shape...)
	if t.Halves > 0 {
		a = tensor.ToHalves(a, t.Halves)
	}
	if t.Transposed {
		a = a.Transposed()
	}
	out.Type, out.File, out.Mem = a.Type, filepath.Join(s.Path, ManifestName), a.Bytes()
	return out, nil
}

// Paths returns the paths of the open files.
func (s *Set) Paths() (paths []string) {
	for _, f := range s.files {
		paths = append(paths, f.Path())
	}
	return paths
}

// Drop is tensor.Mapped.Drop for bytes of the files.
func (s *Set) Drop(part []byte) {
	for _, f := range s.files {
		f.Drop(part)
	}
}
