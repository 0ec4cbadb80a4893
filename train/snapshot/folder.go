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

// readyName is the preliminary name of the manifest if processes do not share the folder. Once all folders have it,
// the snapshot is valid, and is completed in one folder after the other.
const readyName = "ready.json"

// Folder is a run's folder of snapshots. Processes may share it. If they do not, for example on machines without a
// common file system, each keeps its own ranks' state there, and a snapshot is valid once all have written.
type Folder struct {
	Path string
	// Keep is the number of newest snapshots to keep; 0 means 2. The best one is kept too, see Best. There is one more
	// while writing.
	Keep int
	// World is the job of processes saving together; nil means this process alone.
	World *world.World
	// Host is the name of this machine in manifests and errors; "" means its host name.
	Host string
}

// State is the content of a snapshot.
type State struct {
	Step int // number of completed steps
	// Loss is the held-out loss, a finite number for finding the best snapshot. 0 means that it was not measured at
	// this step.
	Loss float64
	// Facts are settings and positions by name, stored unchanged.
	Facts  map[string]string
	Arrays map[string]*runtime.Array // shards replicated on several ranks are written once
	Model  *Model                    // if not nil, the snapshot can be opened as this model
	// Sync, if not nil, is called in every process before the snapshot is completed. It returns after flushing other
	// files of the run to disk. A Writer calls it concurrently with the steps.
	Sync func() error
}

// Save writes a snapshot and removes the oldest ones. In a job of several processes, all must call Save between the
// same two steps, with the same State; it blocks until all have written their parts. After an error there is no
// snapshot of this step, and all earlier ones are intact. It is an error if the step already has a snapshot, or if
// an array is a pending sum. A Writer saves concurrently with the steps.
func (f Folder) Save(ctx context.Context, s State) error {
	w := Writer{Folder: f}
	err := w.begin(ctx, s, false)
	if err == nil {
		err = w.Wait(ctx)
	}
	goruntime.KeepAlive(s.Arrays) // they own the memory being written
	return err
}

// process is the place of this process among the saving ones.
type process struct {
	n, of int
	first bool  // among the processes sharing the folder: it performs the tasks done once per folder
	idle  bool  // another process has the same state, and writes it
	sites []int // by rank, the first rank sharing the same folder; nil if all share it
	host  string
}

func (f Folder) process() (process, error) {
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

// all runs a function in every process, and returns an error in all of them if it failed in one.
func (f Folder) all(ctx context.Context, do func() error) error {
	err := do()
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

// begin creates the folder of a snapshot, removing incomplete ones.
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

// list returns the steps with complete and with incomplete snapshots.
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

// ready reports whether all files of a snapshot are present in this folder, though perhaps not in others.
func ready(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, readyName))
	return err == nil
}

// complete reports whether a snapshot has its manifest.
func complete(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, parts.ManifestName))
	return err == nil
}

// Steps returns the steps with a snapshot, oldest first. There are none if the folder does not exist.
func (f Folder) Steps() ([]int, error) {
	steps, _, err := f.list()
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return steps, nil
}

// Best returns the step of the snapshot with the smallest loss, the earliest if several are equal, and that loss.
// step is -1 if no snapshot has a measured loss.
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
		if err == nil && m.Loss != 0 && (step < 0 || m.Loss < loss) { // a damaged one is reported when opened
			step, loss = s, m.Loss
		}
	}
	return step, loss
}

// prune removes all snapshots except the newest ones and the best.
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

// remove removes a snapshot, starting with its manifest, so that an incomplete one never looks complete.
func remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, parts.ManifestName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// conclude completes a snapshot that has its manifest under readyName.
func conclude(dir string) error {
	m, err := parts.ReadManifest(dir, readyName)
	if err != nil {
		return err
	}
	return m.Write(dir, parts.ManifestName)
}
