package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/snapshot"
)

// ChoicesPrefix followed by a layer's name is the input of a replaying step that holds the experts of the layer's
// tokens, i32[..,K].
const ChoicesPrefix = "choices/"

// chosenPrefix followed by a layer's name is a result of a recording step.
const chosenPrefix = "chosen/"

// Routes is a folder holding the routing of a run: step-00000001.safetensors and so on, each with a tensor
// i32[..,K] for every MoE layer, and the run's settings if Begin prepared it. A later run replaying it sends the same tokens to the same experts, on any mesh
// and regardless of its routers' choices. With the same settings, it reproduces the recorded run bit by bit.
type Routes struct {
	Path string
	// Experts is the number of experts per layer; Load rejects numbers out of range. 0 accepts all numbers from 0 on.
	Experts int
	// Of is the replaying step; Load rejects choices that its layers do not take. nil accepts all.
	Of *Program
}

// last returns the number of the last expert, for errors.
func (r Routes) last() string {
	if r.Experts == 0 {
		return "the last one"
	}
	return fmt.Sprint(r.Experts - 1)
}

// Recorded prepares a scope for recording; call it before tracing the model. Experts' weights are then computed as
// in a replaying step, so that both steps have the same bits.
func Recorded(s *nn.Scope) {
	s.Choose(func(_ string, chosen *graph.Value) *graph.Value { return chosen })
}

// Replayed prepares a scope for replaying; call it before tracing the model. The choices of experts become inputs
// of the step. Weights have gradients, as they do when the router chooses.
func Replayed(s *nn.Scope) {
	s.Choose(func(layer string, chosen *graph.Value) *graph.Value {
		return s.Tracer().Input(ChoicesPrefix+layer, chosen.Type.DType, chosen.Type.Shape...)
	})
}

// Choices returns the results that Save writes, one for every MoE layer applied so far.
func Choices(s *nn.Scope) []*graph.Value {
	if len(s.Routed()) == 0 {
		graph.Fail("the model has no layer of experts, whose choices could be recorded or replayed")
	}
	var all []*graph.Value
	for _, r := range s.Routed() {
		c := r.Chosen
		if strings.HasPrefix(c.Name, ChoicesPrefix) { // an input, already named
			c = graph.Barrier(c)[0]
		}
		all = append(all, c.Named(chosenPrefix+r.Layer))
	}
	return all
}

func (r Routes) file(step int) string {
	return filepath.Join(r.Path, fmt.Sprintf("step-%08d.safetensors", step))
}

// Save writes the choices among a step's results, creating the folder if needed and replacing an existing file
// atomically. In a job of several processes, all must call it; the first one writes.
func (r Routes) Save(ctx context.Context, step int, run *Run, results map[string]*runtime.Array) error {
	job, err := run.world.World.Info()
	if err != nil {
		return err
	}
	var all []tensor.Source
	for _, name := range run.names { // in the same order in all processes
		if !strings.HasPrefix(name, chosenPrefix) || results[name] == nil {
			continue
		}
		a, err := run.Job.Get(ctx, results[name])
		if err != nil {
			return err
		}
		all = append(all, tensor.Of(strings.TrimPrefix(name, chosenPrefix), run.p.rows(a)))
	}
	switch {
	case len(all) == 0:
		return fmt.Errorf("train: routes: the step has no results named %s…, want those of Choices", chosenPrefix)
	case !job.First():
		return nil
	}
	if err := whole.Folder(r.Path); err != nil {
		return fmt.Errorf("train: routes: %w", err)
	}
	return safetensors.Write(r.file(step), map[string]string{stepName: strconv.Itoa(step)}, all)
}

// stepName is the metadata with the number of the step. Files of other programs may have none.
const stepName = "step"

// runName is the file next to the routes with the settings of the run that recorded them.
const runName = "steps.json"

const maxRun = 16 << 20 // bytes

// Begin prepares the folder for the routes of a run with the settings s, which goes on from the checkpoint from, or
// begins if from is nil. It is an error if the folder has routes of another run, because a replay would mix both;
// s.Overwrite removes them. Routes of steps that a resumed run repeats are removed. In a job of several processes,
// all must call it; the first one writes.
func (r Routes) Begin(s *Saves, from *snapshot.Snapshot, first bool) error {
	if err := r.begin(s, from, first); err != nil {
		return fmt.Errorf("train: routes: %w", err)
	}
	return nil
}

func (r Routes) begin(s *Saves, from *snapshot.Snapshot, first bool) error {
	about := filepath.Join(r.Path, runName)
	by, err := infile.Read(about, maxRun)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	run := func(facts map[string]string) []byte {
		facts = maps.Clone(facts)
		maps.DeleteFunc(facts, func(name, _ string) bool { return slices.Contains(s.Free, name) })
		text, _ := json.Marshal(facts) // cannot fail: texts
		return append(text, '\n')
	}
	own, keep := s.Resume && bytes.Equal(by, run(s.Facts)), 0
	if from != nil {
		own = own || bytes.Equal(by, run(from.Facts))
	}
	if own && from != nil {
		keep = from.Step
	}
	entries, err := os.ReadDir(r.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		var step int
		if _, err := fmt.Sscanf(e.Name(), "step-%d.", &step); err != nil || e.Name() != filepath.Base(r.file(step)) || step <= keep {
			continue
		}
		if !own && !s.Overwrite {
			return fmt.Errorf("%s has routes of another run; give -overwrite to remove them, or another folder", r.Path)
		}
		if !first {
			break
		}
		if err := os.Remove(r.file(step)); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	if err := whole.Folder(r.Path); err != nil {
		return err
	}
	return whole.WriteAll(r.Path, map[string][]byte{runName: run(s.Facts)})
}

// Other returns the settings of a run that replays the routes and that differ from those of the run that recorded them, such
// as "seed 2 instead of 1": with another seed or text, tokens go to experts that were chosen for others. It returns none
// for routes without a record of their run.
func (r Routes) Other(s *Saves) ([]string, error) {
	text, err := infile.Read(filepath.Join(r.Path, runName), maxRun)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var facts map[string]string
	if err == nil {
		err = strictjson.Unmarshal(text, &facts)
	}
	if err != nil {
		return nil, fmt.Errorf("train: routes: %w", err)
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		if now, ok := s.Facts[name]; ok && !slices.Contains(s.Free, name) {
			for _, d := range differences(name, now, facts[name]) {
				list = append(list, d.String())
			}
		}
	}
	return list, nil
}

// Has returns an error if the folder lacks the choices of any step, so that a run does not fail midway.
func (r Routes) Has(steps int) error {
	entries, err := os.ReadDir(r.Path)
	if err != nil {
		return fmt.Errorf("train: routes: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.Name()] = true
	}
	for step := 1; step <= steps; step++ {
		if name := filepath.Base(r.file(step)); !there[name] {
			return fmt.Errorf("train: routes: %s has no %s, want the choices of all %d steps", r.Path, name, steps)
		}
	}
	return nil
}

// layers returns the types of the choices that the replaying step takes, by layer.
func (r Routes) layers() map[string]graph.Type {
	all := map[string]graph.Type{}
	for _, in := range r.Of.In {
		layer, ok := strings.CutPrefix(in.Name, ChoicesPrefix)
		if !ok {
			continue
		}
		t := in.Type
		if slices.Contains(r.Of.batch, in.Name) { // in microbatches
			t.Shape = append([]int{t.Shape[0] * t.Shape[1]}, t.Shape[2:]...)
		}
		all[layer] = t
	}
	return all
}

// fits returns an error unless the file of a step has the choices that the replaying step takes.
func (r Routes) fits(f *safetensors.File) error {
	if r.Of == nil {
		return nil
	}
	want := r.layers()
	names := quoted.List(slices.Sorted(maps.Keys(want)))
	for _, t := range f.Tensors {
		w, ok := want[t.Name]
		if !ok {
			return fmt.Errorf("tensor %s is of another model, whose layers of experts this one does not have; want those of %s", quoted.Name(t.Name), names)
		}
		if !slices.Equal(t.Type.Shape, w.Shape) {
			return fmt.Errorf("tensor %s is %s, want %s: sequences of a batch, tokens of a sequence, experts of a token", quoted.Name(t.Name), t.Type, w)
		}
		delete(want, t.Name)
	}
	for _, layer := range slices.Sorted(maps.Keys(want)) {
		return fmt.Errorf("there is no tensor %s; the routes are of another model, want those of %s", quoted.Name(layer), names)
	}
	return nil
}

// Load returns the choices of a step as inputs by name. The caller owns the arrays. It is an error if the folder
// lacks the step, if the file is one of another step, if the layers or shapes are not those of Of, or if an expert is out of range.
func (r Routes) Load(step int) (_ map[string]array.Array, err error) {
	f, err := safetensors.Open(r.file(step))
	if err != nil {
		return nil, fmt.Errorf("train: routes: step %d: %w", step, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if of, ok := f.Metadata[stepName]; ok && of != strconv.Itoa(step) {
		return nil, fmt.Errorf("train: routes: %s: the choices are of step %s, want those of step %d", f.Path(), quoted.Plain(of), step)
	}
	if err := r.fits(f); err != nil {
		return nil, fmt.Errorf("train: routes: %s: step %d: %w", f.Path(), step, err)
	}
	all := map[string]array.Array{}
	for _, t := range f.Tensors {
		a, err := t.Array()
		if err != nil {
			return nil, fmt.Errorf("train: routes: %w", err)
		}
		if a.Type.DType != graph.I32 {
			return nil, fmt.Errorf("train: routes: %s: tensor %s is %s, want i32, the numbers of experts", f.Path(), quoted.Name(t.Name), a.Type)
		}
		own := array.New(a.Type)
		copy(own.Bytes(), a.Bytes())
		for i, e := range array.Data[int32](own) {
			if e < 0 || int(e) >= r.Experts && r.Experts > 0 {
				return nil, fmt.Errorf("train: routes: %s: step %d: tensor %s has expert %d at element %d, want 0 to %s", f.Path(), step, quoted.Name(t.Name), e, i, r.last())
			}
		}
		all[ChoicesPrefix+t.Name] = own
	}
	return all, nil
}
