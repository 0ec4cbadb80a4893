package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/train/snapshot"
)

// Saves says where and when a Loop saves, and what a later run must have in common with it. The zero Saves saves nothing.
type Saves struct {
	// Folder is where checkpoints are. Begin sets its World.
	Folder snapshot.Folder
	// Every is after how many steps the loop saves. The last step and a stop leave a checkpoint, too. 0 saves nothing.
	// Checkpoints are written beside the steps that follow, from a copy of the state; a process that writes keeps memory
	// for its part of the copy. Beside the newest checkpoints the best one stays, of those steps after which the loop has both
	// saved and measured the loss on held-out text: see snapshot.Folder.Best.
	Every int
	// Resume goes on from the newest checkpoint in Folder, if there is one.
	Resume bool
	// Facts are the settings of the run by name, which checkpoints keep. Those named in Model must be those of the
	// checkpoint that a run goes on from; those in Free may differ, because results do not depend on them; if others
	// differ, Begin says so.
	Facts       map[string]string
	Model, Free []string
	// Made are the files or folders that the program leaves when the run ends. One that is there and without a checkpoint is of
	// an earlier run, which this one would not go on from, but write over. A run that resumes may write over one that Rescue has
	// marked.
	Made []string
	// Overwrite says that the run is to write over it.
	Overwrite bool
	// As, unless it is nil, is the model that checkpoints open as, too, in gomoe generate and with package checkpoint.
	As *snapshot.Model

	done   int // steps that the newest checkpoint has, or the one that is being written
	writer *snapshot.Writer
}

// Begun is how a run begins.
type Begun struct {
	Steps   int      // that the checkpoint has done; 0 without one
	Path    string   // of the checkpoint, "" without one
	Changed []string // settings that results depend on and that are not the checkpoint's, such as "-batch 8 instead of 16"
}

// Earlier returns an error if a run that does not resume would leave its checkpoints among those of an earlier one, from
// whichever is newest of which a later run would go on, and if a run without a checkpoint would write over what an earlier
// one has made. Begin checks that, too; a program that compiles for long asks before.
func (s *Saves) Earlier() error {
	if s.Folder.Path != "" {
		steps, err := s.Folder.Steps()
		switch {
		case err != nil || len(steps) > 0 && s.Resume:
			return err
		case len(steps) > 0:
			return fmt.Errorf("an earlier run has left a checkpoint of step %d; give -resume to go on from it, or another folder, or remove %s", steps[len(steps)-1], s.Folder.Path)
		}
	}
	failed, err := s.rescued()
	if err != nil {
		return err
	}
	for _, path := range s.Made {
		_, err := os.Lstat(path)
		switch {
		case err != nil || s.Overwrite || failed && s.Resume:
		case failed:
			return fmt.Errorf("an earlier run has left %s when it failed, and no checkpoint; give -resume to begin again and write over it, or another folder", path)
		default:
			return fmt.Errorf("an earlier run has left %s, and no checkpoint to go on from; give -overwrite to write over it, or another folder", path)
		}
	}
	return nil
}

// RescuedName is the file next to Saves.Made that says that a run has failed which has left them.
const RescuedName = "failed.txt"

func (s *Saves) mark() string { return filepath.Join(filepath.Dir(s.Made[0]), RescuedName) }

// rescued reports whether what is in Saves.Made is of a run that has failed.
func (s *Saves) rescued() (bool, error) {
	if len(s.Made) == 0 {
		return false, nil
	}
	_, err := os.Lstat(s.mark())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Rescue calls write, which writes Saves.Made, for a run that has ended with an error after some steps, or nil for one that has
// ended well. After an error they are marked, so that a run that resumes begins again over them where there is no checkpoint:
// whoever starts it again is not to remove them first. The mark is there before they are, unless they are written over, so that
// something finished is never marked; and it goes when a run ends well.
func (s *Saves) Rescue(failed error, write func() error) error {
	if len(s.Made) == 0 {
		return write()
	}
	if failed == nil {
		if err := write(); err != nil {
			return err
		}
		if err := os.Remove(s.mark()); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	set := func() error {
		return whole.Write(s.mark(), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "The run that has left %s has failed: %.2000s\nWith -resume it goes on from its newest checkpoint, or begins again, and writes over it.\n", filepath.Base(s.Made[0]), failed)
			return err
		})
	}
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	if slices.ContainsFunc(s.Made, there) {
		if err := write(); err != nil {
			return err
		}
		return set()
	}
	return errors.Join(set(), write())
}

// Meet finds out which processes see the same folder. Loop.Run does it where a program has not: one that
// wants Run.Memory or Apart before. In a job of several processes all of them call it.
func (s *Saves) Meet(ctx context.Context, r *Run) error {
	s.Folder.World = r.world.World
	if s.Every == 0 || s.writer != nil && s.writer.Folder == s.Folder {
		return nil
	}
	w := &snapshot.Writer{Folder: s.Folder}
	if _, err := w.Sites(ctx); err != nil {
		return err
	}
	s.writer = w
	return nil
}

// Apart reports whether the processes that Meet has found do not see one folder: each keeps what its ranks hold then.
func (s *Saves) Apart() bool { return s.sites() != nil }

func (s *Saves) sites() []int {
	if s.writer == nil {
		return nil
	}
	sites, _ := s.writer.Sites(context.Background()) // which are known
	return sites
}

// Begin gives the run its first state: that of the newest checkpoint if Saves.Resume asks for it and there is one, else one of
// the seed. In a job of several processes all of them call it.
func (l *Loop) Begin(ctx context.Context, r *Run, seed uint64) (b Begun, err error) {
	s := &l.Saves
	s.done, s.Folder.World = 0, r.world.World
	if err := s.Earlier(); err != nil {
		return b, err
	}
	if !s.Resume || s.Folder.Path == "" {
		return b, r.Init(ctx, seed)
	}
	from, err := s.Folder.Latest(ctx)
	if err != nil {
		return b, err
	}
	if from == nil {
		return b, r.Init(ctx, seed)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	b = Begun{Steps: from.Step, Path: from.Path}
	if b.Changed, err = s.changed(from); err != nil {
		return b, err
	}
	if l.Steps > 0 && from.Step > l.Steps {
		return b, fmt.Errorf("the checkpoint %s is of step %d, and the run has %d steps; give it at least as many, or another folder", from.Path, from.Step, l.Steps)
	}
	if err = r.Restore(from); err == nil {
		s.done = from.Step
	}
	return b, err
}

// changed returns which settings that change results are not those of the checkpoint. It is an error if the model is
// another.
func (s *Saves) changed(from *snapshot.Snapshot) (list []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Facts)) {
		now := s.Facts[name]
		then, ok := from.Facts[name]
		switch {
		case now == then || !ok || slices.Contains(s.Free, name):
		case slices.Contains(s.Model, name):
			return nil, fmt.Errorf("%s %s: the checkpoint %s is of a model with %s; give that, or another folder", name, now, from.Path, then)
		default:
			list = append(list, fmt.Sprintf("%s %s instead of %s", name, now, then))
		}
	}
	return list, nil
}

// save begins to write a checkpoint after a step, if checkpoints are asked for and the step has none. It is written beside
// the steps that follow.
//
// loss is that on held-out text after the step, 0 if it was not measured.
func (s *Saves) save(ctx context.Context, step int, loss float64, r *Run, out *outputs) error {
	if s.Every == 0 || step == s.done {
		return nil
	}
	s.done = step
	before := s.writer.Wait(ctx) // which does not keep this one from being written
	// A resumed run continues the rows of metrics.csv.
	return errors.Join(before, s.writer.Begin(ctx, snapshot.State{Step: step, Loss: loss, Facts: s.Facts, Arrays: r.state, Model: s.As, Sync: out.sync()}))
}

// poll returns the error of a checkpoint that could not be written.
func (s *Saves) poll(ctx context.Context) error {
	if s.writer == nil {
		return nil
	}
	_, err := s.writer.Poll(ctx)
	return err
}

// end returns when nothing is written any more. err is that of the run. A checkpoint that is being written is completed,
// unless other processes may not be there any more.
func (s *Saves) end(ctx context.Context, err error) error {
	if s.writer == nil {
		return nil
	}
	var diverged *DivergedError
	if err == nil || s.Folder.World == nil || errors.As(err, &diverged) && diverged.Cause == nil { // which all processes find
		return s.writer.Wait(ctx)
	}
	return s.writer.Abandon(err)
}
