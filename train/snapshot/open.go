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

// Snapshot is an open snapshot. Its methods but Close are safe for concurrent use.
type Snapshot struct {
	Path  string
	Step  int
	Facts map[string]string

	files *parts.Set
}

// Open opens the snapshot in a folder. It checks that every array is there, and reads no element. Where processes have
// written parts to several folders, the files of some may be there only; what lies in others is an error when it is read.
// The caller must call Close.
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

// Close ends the use of the files.
func (s *Snapshot) Close() error { return s.files.Close() }

// Types returns the types of all arrays by name.
func (s *Snapshot) Types() map[string]graph.Type { return s.files.Types() }

// Fill returns the function with which Session.PutParts reads an array: of a part, it reads what
// lies in it, and nothing else, and checks its checksums. The function returns an error if the
// snapshot has no such array, if the array is of another type than the input, or if bytes are damaged.
func (s *Snapshot) Fill(name string) func(runtime.Part) error {
	return func(p runtime.Part) error { return named(s.files.Read(name, p.Whole, p.Array, p.Start)) }
}

// Array returns a whole array. Errors are those of Fill.
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
