package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/world"
)

// readyName is the name under which the manifest is written first where processes do not see the same folder: when all folders have
// that, the snapshot is there, and completed in one after the other.
const readyName = "ready.json"

// Folder is where a run keeps its snapshots. Processes that see the same folder share it. Where they do not, as on machines
// without a file system in common, each keeps there what its ranks hold, and a snapshot counts when all have written.
type Folder struct {
	Path string
	// Keep is how many snapshots stay, the newest; 0 means 2. The best one stays, too, see Best. While one is written there
	// is one more.
	Keep int
	// World is the job whose processes save together; nil means this process alone.
	World *world.World
	// Host is what manifests and errors call this machine; "" means its own name.
	Host string
}

// State is what a snapshot holds.
type State struct {
	Step int // how many steps are done
	// Loss is that on text that the run does not learn, a finite number, by which the best snapshot is found. 0 says that it
	// was not measured at this step.
	Loss float64
	// Facts are settings and positions by name. The snapshot keeps them as they are.
	Facts  map[string]string
	Arrays map[string]*runtime.Array // those that several ranks hold are written once
	Model  *Model                    // unless it is nil, the snapshot opens as this model, too
	// Sync, unless it is nil, is called in every process before the snapshot is complete. It returns
	// when other files of the run, which a snapshot goes with, are on the disk. A Writer calls it
	// beside the steps.
	Sync func() error
}

// Save writes a snapshot and removes the oldest ones. In a job of several processes all of them
// call Save between the same two steps, with the same State; it blocks until all have written
// their parts. After an error there is no snapshot of this step, and all earlier ones are there.
// It is an error if the step has a snapshot already, or if an array is a pending sum. A Writer
// saves beside the steps.
func (f Folder) Save(ctx context.Context, s State) error {
	w := Writer{Folder: f}
	err := w.begin(ctx, s, false)
	if err == nil {
		err = w.Wait(ctx)
	}
	goruntime.KeepAlive(s.Arrays) // they own the memory of what is written
	return err
}

// process is the place of this process among those that save.
type process struct {
	n, of int
	first bool  // of those that see the same folder: it does what is done once there
	idle  bool  // another process has the same state, and writes it
	sites []int // by rank, the first one that sees the same folder; nil if all do
	host  string
}

func (f Folder) process() (process, error) {
	if f.World == nil {
		return process{of: 1, first: true}, nil
	}
	i, err := f.World.Info()
	if err != nil {
		return process{}, err
	}
	if i.Mode != world.PerProcess {
		return process{of: 1, first: i.First(), idle: !i.First()}, nil
	}
	return process{n: i.Rank, of: i.Size, first: i.First()}, nil
}

// host returns the name of this machine.
func (f Folder) host() string {
	if f.Host != "" {
		return f.Host
	}
	name, err := os.Hostname()
	if err != nil {
		return "a host without a name"
	}
	return name
}

// all does something in every process, and returns an error in all if it failed in one.
func (f Folder) all(ctx context.Context, do func() error) error {
	err := do()
	if f.World == nil {
		return err
	}
	failed, lost := f.World.Any(ctx, err != nil)
	switch {
	case err != nil:
		return err
	case lost != nil:
		return lost
	case failed:
		return &world.ElsewhereError{What: "has failed"}
	}
	return nil
}

// folder returns the path of a step's snapshot.
func (f Folder) folder(step int) string { return filepath.Join(f.Path, fmt.Sprintf("step-%08d", step)) }

// begin makes the folder of a snapshot, and removes what was left of others that were not completed.
func (f Folder) begin(dir string) error {
	if complete(dir) {
		return fmt.Errorf("%s is there already; want a step that has no snapshot", dir)
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), siteMark) {
			continue
		}
		if err := os.Remove(filepath.Join(f.Path, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	_, broken, err := f.list()
	if err != nil {
		return err
	}
	for _, step := range broken {
		if err := os.RemoveAll(f.folder(step)); err != nil {
			return err
		}
	}
	if err := whole.Folder(f.Path); err != nil {
		return err
	}
	return whole.Folder(dir)
}

// list returns the steps that have a snapshot, and those that have one that was not completed.
func (f Folder) list() (done, broken []int, err error) {
	entries, err := os.ReadDir(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "step-")
		step, err := strconv.Atoi(digits)
		switch {
		case !ok || err != nil || step < 0 || f.folder(step) != filepath.Join(f.Path, e.Name()):
		case complete(f.folder(step)):
			done = append(done, step)
		default:
			broken = append(broken, step)
		}
	}
	slices.Sort(done)
	return done, broken, nil
}

// ready reports whether all that a snapshot needs here is there, and perhaps not elsewhere.
func ready(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, readyName))
	return err == nil
}

// complete reports whether a snapshot has its manifest.
func complete(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, parts.ManifestName))
	return err == nil
}

// Steps returns the steps that have a snapshot, the oldest first. There are none if there is no folder.
func (f Folder) Steps() ([]int, error) {
	steps, _, err := f.list()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return steps, nil
}

// Best returns the step whose snapshot has the smallest loss, the earliest of several, and that loss. step is -1 if there is
// no snapshot of a step at which the loss was measured.
func (f Folder) Best() (step int, loss float64, err error) {
	steps, err := f.Steps()
	if err != nil {
		return -1, 0, err
	}
	step, loss = f.best(steps)
	return step, loss, nil
}

func (f Folder) best(steps []int) (step int, loss float64) {
	step = -1
	for _, s := range steps {
		m, err := parts.ReadManifest(f.folder(s), parts.ManifestName)
		if err == nil && m.Loss != 0 && (step < 0 || m.Loss < loss) { // who opens one that is damaged is told so
			step, loss = s, m.Loss
		}
	}
	return step, loss
}

// prune removes all snapshots but the newest and the best.
func (f Folder) prune() error {
	keep := f.Keep
	if keep == 0 {
		keep = 2
	}
	steps, _, err := f.list()
	if err != nil {
		return err
	}
	if len(steps) <= keep {
		return nil
	}
	best, _ := f.best(steps)
	for _, step := range steps[:len(steps)-keep] {
		if step == best {
			continue
		}
		if err := remove(f.folder(step)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a snapshot, its manifest first, so that no part of one looks complete.
func remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, parts.ManifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// conclude completes a snapshot whose manifest has the name readyName.
func conclude(dir string) error {
	m, err := parts.ReadManifest(dir, readyName)
	if err != nil {
		return err
	}
	return m.Write(dir, parts.ManifestName)
}
