package snapshot

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
)

// Snapshot is an open snapshot. Its methods except Close are safe for concurrent use.
type Snapshot struct {
	Path  string
	Step  int
	Facts map[string]string

	files *parts.Set
}

// Open opens the snapshot in a folder. It checks that every array is present, without reading elements. If
// processes have written parts to several folders, this folder may lack some of the files; reading from a missing
// one is an error. The caller must call Close.
func Open(dir string) (*Snapshot, error) {
	files, err := parts.Open(dir)
	if err != nil {
		return nil, damaged(dir, err)
	}
	return &Snapshot{dir, files.Step, files.Facts, files}, nil
}

func damaged(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("snapshot: %s: %w", dir, err)
	}
	return fmt.Errorf("snapshot: %s: %w; to go on from an earlier snapshot, remove this folder", dir, err)
}

// Close closes the files.
func (s *Snapshot) Close() error { return s.files.Close() }

// Types returns the types of all arrays by name.
func (s *Snapshot) Types() map[string]graph.Type { return s.files.Types() }

// Fill returns a function for Session.PutParts that reads an array. For each part it reads only the elements in it,
// and verifies their checksums. The function returns an error if the snapshot has no such array, if the array's
// type differs from the input's, or if bytes are damaged.
func (s *Snapshot) Fill(name string) func(runtime.Part) error {
	return func(p runtime.Part) error { return named(s.files.Read(name, p.Whole, p.Array, p.Start)) }
}

// Array returns a whole array, with the same errors as Fill.
func (s *Snapshot) Array(name string) (array.Array, error) {
	a, err := s.files.Array(name)
	return a, named(err)
}

func named(err error) error {
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
	}
	return err
}
