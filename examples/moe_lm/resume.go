package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/train/report"
	"github.com/gomoe/gomoe/train/snapshot"
)

// saves are the checkpoints of a run: the one that it goes on from, and those that it leaves.
type saves struct {
	o      options
	folder snapshot.Folder
	from   *snapshot.Snapshot // nil if the run begins with step 1
	done   int                // steps that the newest checkpoint has done
}

// openSaves opens the newest checkpoint if the command line asks to go on from it. Otherwise it is an error if there
// is one: a later run would go on from whichever is newest.
func openSaves(ctx context.Context, c config, o options, stdout io.Writer) (*saves, error) {
	s := &saves{o: o, folder: snapshot.Folder{Path: filepath.Join(o.out, "checkpoints"), Keep: o.keep, World: c.world}}
	if !o.resume {
		steps, err := s.folder.Steps()
		if err == nil && len(steps) > 0 {
			err = fmt.Errorf("-out %s: an earlier run has left a checkpoint of step %d; give -resume to go on from it, or another -out, or remove %s", o.out, steps[len(steps)-1], s.folder.Path)
		}
		return s, err
	}
	var err error
	if s.from, err = s.folder.Latest(ctx); err != nil || s.from == nil {
		if err == nil {
			fmt.Fprintf(stdout, "no checkpoint in %s, so the run begins with step 1\n", s.folder.Path)
		}
		return s, err
	}
	s.done = s.from.Step
	changed, err := s.changed()
	if err != nil {
		return s, also(err, s.Close())
	}
	fmt.Fprintf(stdout, "resumed after step %d, from %s%s\n", s.done, s.from.Path, changed)
	return s, nil
}

// changed returns which settings that change results are not those of the checkpoint. It is an error if the
// model is another.
func (s *saves) changed() (string, error) {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.o.same)) {
		now := s.o.same[name]
		then, ok := s.from.Facts[name]
		switch {
		case now == then || !ok:
		case slices.Contains(strings.Fields("-width -layers -heads -ffn -experts -top-k"), name):
			return "", fmt.Errorf("%s %s: the checkpoint %s is of a model with %s; give that, or another -out", name, now, s.from.Path, then)
		case slices.Contains(strings.Fields("-check -compare -deadline -eval -finite -keep -overlap -prompt -remat -resume -sample -save-every -temperature"), name):
		default:
			list = append(list, fmt.Sprintf("%s %s instead of %s", name, now, then))
		}
	}
	if list == nil {
		return "", nil
	}
	return ", with " + strings.Join(list, ", "), nil
}

// metrics opens metrics.csv, and adds the steps of earlier runs to the history.
func (s *saves) metrics(history *report.History) (*report.Metrics, error) {
	path := filepath.Join(s.o.out, "metrics.csv")
	switch {
	case !s.o.info.First():
		return report.NewMetrics(io.Discard), nil
	case s.from == nil:
		return report.CreateMetrics(path)
	}
	metrics, rows, err := report.ResumeMetrics(path, s.done)
	for _, row := range rows {
		row.Total = s.o.steps
		history.Add(row)
	}
	return metrics, err
}

// save leaves a checkpoint after a step, if checkpoints are asked for and the step has none.
func (s *saves) save(ctx context.Context, step int, tr *trainer, metrics *report.Metrics) error {
	if s.o.save == 0 || step == s.done {
		return nil
	}
	if err := metrics.Sync(); err != nil { // a resumed run continues the rows
		return err
	}
	s.done = step
	return s.folder.Save(ctx, snapshot.State{Step: step, Facts: s.o.same, Arrays: tr.state})
}

// Close closes the checkpoint that the run has gone on from.
func (s *saves) Close() error {
	if s.from == nil {
		return nil
	}
	err := s.from.Close()
	s.from = nil
	return err
}
