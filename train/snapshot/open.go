package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/runtime"
)

// found describes the snapshots in a process's folder.
type found struct {
	Host   string
	Newest int               // step of the newest snapshot; -1 for none
	Sum    string            // checksum of its manifest
	Ready  map[string]string // checksums of the manifests of snapshots not completed here, by step

	files []parts.File // of the newest snapshot
}

// Latest opens the newest snapshot, or returns nil if there is none. In a job of several processes, all must call
// Latest. If they do not share the folder, a snapshot is valid once completed in any of the folders, because all
// others then have their parts. It is an error if a process lacks the parts or has different ones.
func (f Folder) Latest(ctx context.Context) (*Snapshot, error) {
	p, err := f.process()
	if err != nil {
		return nil, err
	}
	mine, err := f.find()
	if p.of == 1 {
		if err != nil || mine.Newest < 0 {
			return nil, err
		}
		return Open(f.folder(mine.Newest))
	}
	if err := f.all(ctx, func() error { return err }); err != nil {
		return nil, err
	}
	newest, err := f.agree(ctx, mine)
	if err != nil || newest < 0 {
		return nil, err
	}
	var s *Snapshot
	err = f.all(ctx, func() (err error) {
		dir := f.folder(newest)
		if !complete(dir) { // the job ended after others had completed it
			if err := conclude(dir); err != nil {
				return fmt.Errorf("snapshot: %s: %w", dir, err)
			}
		}
		s, err = Open(dir)
		return err
	})
	if err != nil && s != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, err
}

// find lists the snapshots in the folder.
func (f Folder) find() (*found, error) {
	done, broken, err := f.list()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	mine := &found{Host: f.host(), Newest: -1, Ready: map[string]string{}}
	if len(done) > 0 {
		mine.Newest = done[len(done)-1]
		dir := f.folder(mine.Newest)
		m, err := parts.ReadManifest(dir, parts.ManifestName)
		if err != nil {
			return nil, damaged(dir, err)
		}
		mine.Sum, mine.files = m.Sum, m.Files
	}
	for _, step := range broken {
		if m, err := parts.ReadManifest(f.folder(step), readyName); err == nil {
			mine.Ready[fmt.Sprint(step)] = m.Sum
		}
	}
	return mine, nil
}

// agree returns the step of the newest snapshot shared by all processes, -1 for none. If one process lacks it or
// has a different one, all return an error.
func (f Folder) agree(ctx context.Context, mine *found) (int, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return 0, err
	}
	texts, err := f.World.Gather(ctx, text)
	if err != nil {
		return 0, err
	}
	all := make([]found, len(texts))
	first := 0 // a rank with the newest one
	for r, text := range texts {
		if err := json.Unmarshal(text, &all[r]); err != nil {
			return 0, fmt.Errorf("snapshot: what rank %d has: %w", r, err)
		}
		if all[r].Newest > all[first].Newest {
			first = r
		}
	}
	newest, sum := all[first].Newest, all[first].Sum
	if newest < 0 {
		return newest, nil
	}
	var lack []int
	for r, x := range all {
		switch {
		case x.Newest == newest && x.Sum == sum || x.Newest != newest && x.Ready[fmt.Sprint(newest)] == sum:
		case x.Newest == newest:
			return 0, fmt.Errorf("snapshot: %s: %s and %s have snapshots of step %d of two runs; remove one", f.Path, all[first].Host, x.Host, newest)
		default:
			lack = append(lack, r)
		}
	}
	if len(lack) == 0 {
		return newest, nil
	}
	// Processes with the newest snapshot tell where its parts are.
	var where []byte
	if mine.Newest == newest && mine.Sum == sum {
		where = []byte(parts.Places(mine.files))
	}
	texts, err = f.World.Gather(ctx, where)
	if err != nil {
		return 0, err
	}
	var who []string
	for _, r := range lack {
		who = append(who, fmt.Sprintf("rank %d on %s", r, all[r].Host))
	}
	return 0, fmt.Errorf("snapshot: step %d is not in %s of %s, and its parts lie elsewhere: %s; start the ranks on the hosts that have their parts, or copy the folder %s there",
		newest, f.Path, strings.Join(who, " and of "), texts[first], filepath.Base(f.folder(newest)))
}

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

// Model describes the arrays of a snapshot as a model, or as an adapter, for checkpoint.Open or peft.Open.
type Model struct {
	Tensors []parts.Tensor
	Files   map[string][]byte // files of the model's folder other than tensors, by name: config.json, the tokenizer's files and the like
}

// listed returns the model's entry in the manifest, nil if there is no model.
func (m *Model) listed() *parts.Model {
	if m == nil {
		return nil
	}
	list := &parts.Model{Tensors: m.Tensors, Files: map[string]string{}}
	for name, text := range m.Files {
		list.Files[name] = parts.Hash(text)
	}
	return list
}

// write writes the files other than tensors, if there is a model.
func (m *Model) write(dir string) error {
	if m == nil {
		return nil
	}
	return whole.WriteAll(dir, m.Files)
}
