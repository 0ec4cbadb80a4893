package parts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

// Set holds the open files of a checkpoint. Its methods except Close are safe for concurrent use.
type Set struct {
	Path string
	Manifest

	files  []*safetensors.File
	away   []File // stored on other hosts
	arrays map[string]*stored
}

// stored is an array of a checkpoint.
type stored struct {
	t     graph.Type
	parts []*piece
}

// Open opens the checkpoint in a folder. It checks that every array is complete, without reading elements. If
// processes have written parts to several folders, this folder may lack some of the files; reading from a missing
// one is an error. The caller must call Close.
func Open(dir string) (*Set, error) {
	m, err := ReadManifest(dir, ManifestName)
	if err != nil {
		return nil, err
	}
	return open(dir, m)
}

// open opens the files listed in a manifest. It fills in missing checksums of files in the manifest.
func open(dir string, m *Manifest) (*Set, error) {
	s := &Set{Path: dir, arrays: map[string]*stored{}}
	for i := range m.Files {
		if err := s.add(dir, m.Step, &m.Files[i]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.arrays)) {
		if len(s.away) > 0 {
			break // read reports missing parts
		}
		if err := s.arrays[name].covered(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), s.Close())
		}
	}
	s.Manifest = *m
	return s, nil
}

// add adds the parts of arrays stored in a file.
func (s *Set) add(dir string, step int, f *File) error {
	if f.Name != filepath.Base(f.Name) || !filepath.IsLocal(f.Name) {
		return fmt.Errorf("file %s: want a name without folders", quoted.Name(f.Name))
	}
	in, err := safetensors.Open(filepath.Join(dir, f.Name))
	if errors.Is(err, os.ErrNotExist) && f.Host != "" {
		s.away = append(s.away, *f)
		return nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w; all processes must see the same folder, such as one that machines share", err)
	}
	if err != nil {
		return err
	}
	s.files = append(s.files, in)
	if got := in.Metadata[formatField]; got != format {
		return fmt.Errorf("%s: format %s, want %q", f.Name, quoted.Name(got), format)
	}
	if got := in.Metadata[stepField]; got != strconv.Itoa(step) {
		return fmt.Errorf("%s: is of step %s, want %d", f.Name, got, step)
	}
	text := []byte(in.Metadata[partsField])
	switch sum := Hash(text); {
	case f.Parts == "":
		f.Parts = sum
	case f.Parts != sum:
		return fmt.Errorf("%s is damaged, or of another snapshot: the checksum of its parts is %.16s, want %.16s", f.Name, sum, f.Parts)
	}
	var parts []Part
	if err := strictjson.UnmarshalOnce(text, &parts); err != nil {
		return fmt.Errorf("%s: parts: %w", f.Name, err)
	}
	if len(parts) != len(in.Tensors) {
		return fmt.Errorf("%s: %d parts for %d tensors", f.Name, len(parts), len(in.Tensors))
	}
	byName := map[string]tensor.Tensor{}
	for _, t := range in.Tensors {
		byName[t.Name] = t
	}
	for _, p := range parts {
		t, ok := byName[p.Tensor]
		if !ok {
			return fmt.Errorf("%s: there is no tensor %s", f.Name, quoted.Name(p.Tensor))
		}
		whole := graph.Type{DType: t.Type.DType, Shape: p.Shape}
		if s.arrays[p.Array] == nil {
			s.arrays[p.Array] = &stored{t: whole}
		}
		a := s.arrays[p.Array]
		if !a.t.Equal(whole) {
			return fmt.Errorf("%s: %s is %s, and %s in another part", f.Name, p.Array, whole, a.t)
		}
		q, err := newPiece(p, t)
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", f.Name, quoted.Name(p.Tensor), err)
		}
		twice := func(p *piece) bool { return slices.Equal(p.start, q.start) && slices.Equal(p.Type.Shape, q.Type.Shape) }
		if !slices.ContainsFunc(a.parts, twice) { // several hosts may store the same part
			a.parts = append(a.parts, q)
		}
	}
	return nil
}

// covered returns an error unless the parts cover every element of the array exactly once.
func (a *stored) covered() error {
	if err := a.t.Check(); err != nil {
		return err
	}
	n := 0
	for i, p := range a.parts {
		n += p.Type.Len()
		for _, q := range a.parts[:i] {
			if _, _, both := overlap(p.start, p.Type.Shape, q.start, q.Type.Shape); both {
				return fmt.Errorf("parts %s and %s overlap", p.Name, q.Name)
			}
		}
	}
	if n != a.t.Len() {
		return fmt.Errorf("%d of the %d elements of %s are there", n, a.t.Len(), a.t)
	}
	return nil
}

// Close closes the files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// Types returns the types of all arrays by name.
func (s *Set) Types() map[string]graph.Type {
	types := map[string]graph.Type{}
	for name, a := range s.arrays {
		types[name] = a.t
	}
	return types
}

// Array returns a whole array, with the same errors as Read.
func (s *Set) Array(name string) (array.Array, error) {
	a, ok := s.arrays[name]
	if !ok {
		return array.Array{}, s.missing(name)
	}
	whole := array.New(a.t)
	return whole, s.Read(name, a.t, whole, make([]int, len(a.t.Shape)))
}

func (s *Set) missing(name string) error {
	if len(s.away) > 0 {
		return fmt.Errorf("%s: %s is not there, and parts lie elsewhere: %s; %s", s.Path, name, Places(s.away), remedy)
	}
	return fmt.Errorf("%s: there is no array %s%s", s.Path, quoted.Name(name), near.Names(name, slices.Values(slices.Sorted(maps.Keys(s.arrays)))))
}

// Read copies a box of the named array, beginning at start, to an array; t must be the type of the named array. It
// reads only the elements in the box, and verifies their checksums. It is an error if the array is missing or of
// another type, if parts are on other hosts, or if bytes are damaged.
func (s *Set) Read(name string, t graph.Type, to array.Array, start []int) error {
	a, ok := s.arrays[name]
	if !ok {
		return s.missing(name)
	}
	if !a.t.Equal(t) {
		return fmt.Errorf("%s: %s is %s, want %s", s.Path, name, a.t, t)
	}
	got := 0
	for _, p := range a.parts {
		n, err := p.copyTo(to, start)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Path, err)
		}
		got += n
	}
	if want := to.Type.Len(); got != want {
		return fmt.Errorf("%s: %d of the %d elements of %s that this process needs are there, and parts lie elsewhere: %s; %s", s.Path, got, want, name, Places(s.away), remedy)
	}
	return nil
}

const remedy = "start the ranks on the hosts that have their parts, in the same order and on the same mesh, or copy the files here"
