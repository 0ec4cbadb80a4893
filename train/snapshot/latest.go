package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomoe/gomoe/checkpoint/parts"
)

// found is what a process has in its folder.
type found struct {
	Host   string
	Newest int               // the step of its newest snapshot; -1 for none
	Sum    string            // of that one's manifest
	Ready  map[string]string // steps of snapshots that were not completed here, with the sums of their manifests

	files []parts.File // of the newest snapshot
}

// Latest opens the newest snapshot, or returns nil if there is none. In a job of several processes
// all of them call Latest. Where they do not see the same folder, a snapshot is there if it was completed in one of their
// folders, since all others have their parts then. It is an error if a process has other parts, or none.
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
		if !complete(dir) { // the job ended when others had completed it
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

// find returns what is in the folder.
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

// agree returns the step of the newest snapshot that processes have, -1 for none, and an error in all of them if one has
// another or lacks it.
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
	first := 0 // a rank that has the newest
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
	// Who has the newest says where its parts lie.
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
