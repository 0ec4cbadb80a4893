package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/train/snapshot"
)

// Saves configures the checkpoints of a Loop, and the settings that a resumed run must share. The zero Saves saves
// nothing.
type Saves struct {
	// Folder is the folder of checkpoints. Begin sets its World.
	Folder snapshot.Folder
	// Every is the number of steps between checkpoints; 0 saves nothing. The last step and a stop are saved as well.
	// Checkpoints are written from a copy of the state while the following steps run; a writing process keeps memory
	// for its part of the copy. In addition to the newest checkpoints, the loop keeps the best one, among the steps
	// for which it has both saved and measured the held-out loss; see snapshot.Folder.Best.
	Every int
	// Resume continues from the newest checkpoint in Folder, if there is one.
	Resume bool
	// Facts are the settings of the run by name, stored in checkpoints. When resuming, settings named in Model must
	// equal the checkpoint's; settings named in Free may differ, because they do not affect results; Begin reports any
	// other difference. If a setting is a JSON object, its members are compared and reported, and Model and Free may
	// name them, as in optimizer.moments.
	Facts       map[string]string
	Model, Free []string
	// Made lists the files or folders that the program writes at the end of a run. If one exists without a checkpoint,
	// it belongs to an earlier run that cannot be resumed, only overwritten. A resuming run may overwrite one marked
	// by Rescue.
	Made []string
	// Others lists files or folders of other programs, next to which Made would be confused with them: a folder with
	// the weights of a model and of an adapter is opened as either. One that exists is refused.
	Others []string
	// Overwrite permits overwriting Made.
	Overwrite bool
	// As, if not nil, makes checkpoints readable as a model, for gomoe generate and package checkpoint.
	As *snapshot.Model

	done   int // steps of the newest checkpoint, or of the one being written
	writer *snapshot.Writer
}

// Begun describes the start of a run.
type Begun struct {
	Steps   int      // completed in the checkpoint; 0 without one
	Path    string   // of the checkpoint; "" without one
	Changed []string // settings that affect results and differ from the checkpoint's, such as "-batch 8 instead of 16"
}

// Earlier returns an error in three cases. Without Resume, new checkpoints would mix with those of an earlier run,
// and a later run would resume from whichever is newest. Without a checkpoint, the run would overwrite results of
// an earlier run, or add its results to Others. Begin checks this too; a program that compiles for a long time calls Earlier first.
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
	for _, path := range s.Others {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there, of a model or of another training, which this run would mix with its own results; give another folder, or remove it", path)
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

// RescuedName is a file next to Saves.Made, marking it as the results of a failed run.
const RescuedName = "failed.txt"

func (s *Saves) mark() string { return filepath.Join(filepath.Dir(s.Made[0]), RescuedName) }

// rescued reports whether Saves.Made is marked as left by a failed run.
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

// Rescue calls write, which writes Saves.Made, at the end of a run that completed some steps; failed is the run's
// error, or nil if it succeeded. After an error, Rescue marks the results, so that a resuming run without a
// checkpoint can start over and overwrite them without anyone removing them first. The mark is written first,
// unless the results overwrite existing ones, so that finished results are never marked. A successful run removes
// the mark.
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

// Meet determines which processes share the folder. Loop.Run calls it unless the program has done so, in order to
// call Run.Memory or Apart earlier. In a job of several processes, all must call it.
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

// Apart reports whether Meet found processes with separate folders. Each then keeps its own ranks' state.
func (s *Saves) Apart() bool { return s.sites() != nil }

func (s *Saves) sites() []int {
	if s.writer == nil {
		return nil
	}
	sites, _ := s.writer.Sites(context.Background()) // known from Meet
	return sites
}

// Begin sets the initial state of the run: from the newest checkpoint if Saves.Resume is set and there is one, else
// from the seed. In a job of several processes, all must call it.
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

// changed lists the settings that affect results and differ from the checkpoint's. It is an error if the checkpoint
// is of another model.
func (s *Saves) changed(from *snapshot.Snapshot) (list []string, err error) {
	var now, then []string // settings of another model
	for _, name := range slices.Sorted(maps.Keys(s.Facts)) {
		earlier, ok := from.Facts[name]
		if !ok {
			continue
		}
		for _, d := range differences(name, s.Facts[name], earlier) {
			is := func(names []string) bool { return slices.Contains(names, name) || slices.Contains(names, d.name) }
			switch {
			case is(s.Free):
			case is(s.Model):
				now, then = append(now, d.name+" "+d.now), append(then, d.then)
			default:
				list = append(list, d.String())
			}
		}
	}
	if len(now) > 0 {
		return nil, fmt.Errorf("%s: the checkpoint %s is of a run with %s; give %s, or another folder", strings.Join(now, ", "), from.Path, strings.Join(then, ", "), map[bool]string{true: "that", false: "these"}[len(then) == 1])
	}
	return list, nil
}

// difference is a setting with two values.
type difference struct{ name, now, then string }

func (d difference) String() string { return fmt.Sprintf("%s %s instead of %s", d.name, d.now, d.then) }

// differences compares a setting, or the members of one that is a JSON object; a member's name is a path with dots.
func differences(name, now, then string) (all []difference) {
	var a, b map[string]json.RawMessage
	object := strictjson.Unmarshal([]byte(now), &a) == nil && a != nil
	switch {
	case now == then:
		return nil
	case object && !json.Valid([]byte(then)): // written by a version without names of members
		return nil
	case !object || strictjson.Unmarshal([]byte(then), &b) != nil || b == nil:
		return []difference{{name, cmp.Or(now, `""`), cmp.Or(then, `""`)}}
	}
	members := maps.Clone(a)
	maps.Copy(members, b)
	for _, member := range slices.Sorted(maps.Keys(members)) {
		value := func(of map[string]json.RawMessage) string { return cmp.Or(string(of[member]), "none") }
		all = append(all, differences(name+"."+member, value(a), value(b))...)
	}
	return all
}

// save starts writing a checkpoint after a step, if enabled and not yet done for this step. Writing overlaps with
// the following steps. loss is the held-out loss after the step, or 0 if not measured.
func (s *Saves) save(ctx context.Context, step int, loss float64, r *Run, out *outputs) error {
	if s.Every == 0 || step == s.done {
		return nil
	}
	s.done = step
	before := s.writer.Wait(ctx) // its error does not prevent writing this checkpoint
	// A resumed run appends to metrics.csv.
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

// end waits until writing has finished. err is the run's error. A checkpoint being written is completed, unless
// other processes may have failed.
func (s *Saves) end(ctx context.Context, err error) error {
	if s.writer == nil {
		return nil
	}
	var diverged *DivergedError
	if err == nil || s.Folder.World == nil || errors.As(err, &diverged) && diverged.Cause == nil { // all processes find the same divergence
		return s.writer.Wait(ctx)
	}
	return s.writer.Abandon(err)
}
