package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/sharding"
)

// Writer writes snapshots in the background, one at a time. All processes of the folder's World must call its
// methods at the same points between steps, and not concurrently. The zero Writer with a Folder is ready for use.
// After Begin, the caller must call Wait or Abandon to finish the work.
type Writer struct {
	Folder Folder

	met     bool
	sites   []int
	mine    parts.File   // written by this process
	files   []parts.File // written by all processes
	step    int
	first   bool
	alone   bool    // no other process saves
	left    []phase // the first one is running; empty when idle
	done    chan struct{}
	err     error // of the phase that closed done
	pace    *pace
	cancel  context.CancelCauseFunc
	staging []byte // memory for the copies, reused by the next snapshot
}

// phase is a stage of the work that ends with a barrier between processes.
type phase struct {
	do     func(context.Context) error
	writes bool // files, which the processes then announce to each other
}

// Sites returns, by rank, the first rank sharing the same folder; nil if all share it, as with a single process.
// With several processes, it creates the folder. Begin calls Sites if it was not called before. All processes must
// call it.
func (w *Writer) Sites(ctx context.Context) ([]int, error) {
	if !w.met {
		var err error
		if w.sites, err = w.Folder.sites(ctx); err != nil {
			return nil, fmt.Errorf("snapshot: %s: %w", w.Folder.Path, err)
		}
		w.met = true
	}
	return w.sites, nil
}

// Begin waits for the previous snapshot, copies this process's parts of s, and returns; the copies are written in
// the background. The caller may then donate the arrays. The process keeps the memory for the copies. Poll and Wait
// return write errors.
func (w *Writer) Begin(ctx context.Context, s State) error {
	if err := w.Wait(ctx); err != nil {
		return err
	}
	return w.begin(ctx, s, true)
}

func (w *Writer) begin(ctx context.Context, s State, copied bool) error {
	p, err := w.Folder.process()
	if err == nil && w.Folder.Keep < 0 {
		err = fmt.Errorf("%d snapshots are to stay, want at least 1, or 0 for the usual number", w.Folder.Keep)
	}
	if err != nil {
		return w.failedAt(s.Step, err)
	}
	if p.idle {
		return nil
	}
	if p.sites, err = w.Sites(ctx); err != nil {
		return w.failedAt(s.Step, err)
	}
	if p.sites != nil {
		p.first, p.host = p.sites[p.n] == p.n, w.Folder.host()
	}
	boxes, wrong := p.boxes(s)
	if wrong == nil && copied {
		w.staging = stage(boxes, w.staging)
	}
	types := map[string]graph.Type{}
	for name, a := range s.Arrays {
		types[name] = a.Type
	}
	s.Arrays = nil // the caller owns their memory
	w.step, w.first, w.alone = s.Step, p.first, p.of == 1
	dir := w.Folder.folder(s.Step)
	only := func(do func() error) phase {
		return phase{do: func(context.Context) error {
			if !p.first {
				return nil
			}
			return do()
		}}
	}
	w.left = []phase{
		only(func() error {
			if err := w.Folder.begin(dir); err != nil {
				return err
			}
			return s.Model.write(dir)
		}),
		{writes: true, do: func(context.Context) error {
			if wrong == nil && s.Sync != nil {
				wrong = s.Sync()
			}
			if wrong != nil {
				return wrong
			}
			w.mine, wrong = p.write(w.pace, dir, s, boxes)
			return wrong
		}},
	}
	if p.sites == nil {
		w.left = append(w.left, only(func() error {
			if err := w.commit(dir, parts.ManifestName, s, types); err != nil {
				return err
			}
			return w.Folder.prune()
		}))
	} else {
		w.left = append(w.left,
			only(func() error { return w.commit(dir, readyName, s, types) }),
			only(func() error { return conclude(dir) }),
			only(w.Folder.prune))
	}
	if w.alone {
		all := w.left
		w.left = []phase{{do: func(ctx context.Context) error {
			for _, x := range all {
				if err := errors.Join(context.Cause(ctx), x.do(ctx)); err != nil {
					return err
				}
				w.files = []parts.File{w.mine}
			}
			return nil
		}}}
	}
	within, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	w.cancel, w.pace = cancel, newPace(within)
	w.start(within)
	return nil
}

// commit writes a snapshot's manifest under the given name.
func (w *Writer) commit(dir, name string, s State, types map[string]graph.Type) error {
	m := parts.Manifest{Step: s.Step, Facts: s.Facts, Loss: s.Loss, Model: s.Model.listed(), Files: w.files}
	return m.Commit(dir, name, types)
}

// start runs the next phase in the background.
func (w *Writer) start(ctx context.Context) {
	w.done = make(chan struct{})
	go func(do phase, done chan struct{}) {
		defer close(done)
		w.err = do.do(ctx)
	}(w.left[0], w.done)
}

// Poll reports whether writing has finished, without waiting for the disk. It returns the error of a snapshot that
// could not be written; there is no snapshot of its step then, and all earlier ones are intact.
func (w *Writer) Poll(ctx context.Context) (done bool, err error) {
	for len(w.left) > 0 {
		busy := false
		select {
		case <-w.done:
		default:
			busy = true
		}
		busy, err := w.Folder.World.Any(ctx, busy)
		if err != nil {
			return false, errors.Join(w.failed(err), w.Abandon(err))
		}
		if busy {
			return false, nil
		}
		if err := w.next(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Wait waits for the current snapshot, writing at full disk speed. It returns the same errors as Poll. When ctx
// ends, the snapshot is abandoned.
func (w *Writer) Wait(ctx context.Context) error {
	for len(w.left) > 0 {
		w.pace.hurry()
		select {
		case <-w.done:
		case <-ctx.Done():
			return errors.Join(w.failed(context.Cause(ctx)), w.Abandon(context.Cause(ctx)))
		}
		if err := w.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Abandon finishes writing without the other processes, which may be gone. If only this process had work left, the
// snapshot is completed, else there is none of this step. It returns when writing has stopped. cause is the reason.
func (w *Writer) Abandon(cause error) error {
	if len(w.left) == 0 {
		return nil
	}
	if w.alone || w.left[0].writes { // else a manifest is being written
		w.cancel(cause)
	}
	w.pace.hurry()
	<-w.done
	return w.finish()
}

func (w *Writer) failed(err error) error { return w.failedAt(w.step, err) }

func (w *Writer) failedAt(step int, err error) error {
	return fmt.Errorf("snapshot: step %d: %w", step, err)
}

// next ends a phase completed by all processes, and starts the following one.
func (w *Writer) next(ctx context.Context) error {
	if err := w.Folder.all(ctx, func() error { return w.err }); err != nil {
		return errors.Join(w.failed(err), w.finish())
	}
	if w.left[0].writes && !w.alone {
		if err := w.tell(ctx); err != nil {
			return errors.Join(w.failed(err), w.finish())
		}
	}
	if w.left = w.left[1:]; len(w.left) == 0 {
		return w.finish()
	}
	w.start(w.pace.ctx)
	return nil
}

// finish ends the work, removing an incomplete snapshot.
func (w *Writer) finish() error {
	w.left = nil
	w.cancel(nil)
	if dir := w.Folder.folder(w.step); w.first && !complete(dir) && !ready(dir) {
		if err := os.RemoveAll(dir); err != nil {
			return w.failed(err)
		}
	}
	return nil
}

// tell exchanges the lists of written files between all processes.
func (w *Writer) tell(ctx context.Context) error {
	mine, err := json.Marshal(w.mine)
	if err != nil {
		return err
	}
	all, err := w.Folder.World.Gather(ctx, mine)
	if err != nil {
		return err
	}
	w.files = make([]parts.File, len(all))
	for r, text := range all {
		if err := json.Unmarshal(text, &w.files[r]); err != nil {
			return fmt.Errorf("what rank %d has written: %w", r, err)
		}
	}
	return nil
}

// stage copies boxes to its own memory and returns it, reusing staging if it is large enough.
func stage(boxes []box, staging []byte) []byte {
	const chunk = 4 << 20
	const align = 64
	n := 0
	for _, b := range boxes {
		n += (len(b.mem) + align - 1) / align * align
	}
	if cap(staging) < n {
		staging = make([]byte, n)
	}
	type job struct{ to, from []byte }
	var jobs []job
	at := 0
	for i := range boxes {
		from := boxes[i].mem
		to := staging[at : at+len(from) : at+len(from)]
		at += (len(from) + align - 1) / align * align
		boxes[i].mem = to
		for len(from) > 0 {
			k := min(chunk, len(from))
			jobs = append(jobs, job{to[:k], from[:k]})
			to, from = to[k:], from[k:]
		}
	}
	var all sync.WaitGroup
	workers := min(goruntime.GOMAXPROCS(0), len(jobs))
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < len(jobs); i += workers {
				copy(jobs[i].to, jobs[i].from)
			}
		})
	}
	all.Wait()
	return staging
}

// box is a part of an array written by this process.
type box struct {
	parts.Part
	of  graph.Type // type of the part
	mem []byte
}

// boxes returns the parts to be written by this process. They alias the arrays' memory.
func (p process) boxes(s State) ([]box, error) {
	var all []box
	for _, name := range slices.Sorted(maps.Keys(s.Arrays)) {
		a := s.Arrays[name]
		held, err := a.Parts()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(a.Spec.Pending) > 0 {
			return nil, fmt.Errorf("%s is a pending sum, %s; save it when a program has added it up", name, a.Spec.Format(a.Type))
		}
		if a.Type.DType.IsBlock() {
			return nil, fmt.Errorf("%s: %s: want an element type that is not in blocks", name, a.Type)
		}
		for _, h := range held {
			if !Writes(a.Spec, a.Mesh(), h.Rank, p.sites) || h.Type.Len() == 0 && (a.Type.Len() > 0 || h.Rank > 0 && p.sites == nil) {
				continue // an array without elements has one part, for its type
			}
			b := box{parts.Part{Tensor: name, Array: name, Shape: append([]int{}, a.Type.Shape...), Start: append([]int{}, h.Start...), Sums: []uint32{}}, h.Type, h.Bytes()}
			if !h.Type.Equal(a.Type) {
				b.Tensor = name + h.Box()
			}
			all = append(all, b)
		}
	}
	return all, nil
}

// write writes this process's file.
func (p process) write(at *pace, dir string, s State, boxes []box) (parts.File, error) {
	f := parts.File{Name: parts.FileName(p.n, p.of)}
	if p.sites != nil {
		f.Host = p.host
	}
	if err := whole.Folder(dir); err != nil {
		return f, err
	}
	list, tensors := make([]parts.Part, len(boxes)), []tensor.Source{}
	for i, b := range boxes {
		for piece := range slices.Chunk(b.mem, parts.Block) {
			if err := at.do(func() error { b.Sums = append(b.Sums, parts.Sum(piece)); return nil }); err != nil {
				return f, err
			}
		}
		list[i] = b.Part
		tensors = append(tensors, tensor.Source{Name: b.Tensor, Type: b.of, Write: func(w io.Writer) error {
			for piece := range slices.Chunk(b.mem, parts.Block/4) {
				if err := at.do(func() error { _, err := w.Write(piece); return err }); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	meta, sum, err := parts.Header(s.Step, list)
	if err != nil {
		return f, err
	}
	f.Parts = sum
	return f, safetensors.Write(filepath.Join(dir, f.Name), meta, tensors)
}

// Writes reports whether a rank writes its shard of an array with the given placement: it must be the lowest rank
// of those holding the shard and sharing the folder. sites is the result of Writer.Sites.
func Writes(spec sharding.Spec, m sharding.Mesh, rank int, sites []int) bool {
	axes := spec.Axes()
	for r := range rank {
		if (sites == nil || sites[r] == sites[rank]) && m.Index(r, axes) == m.Index(rank, axes) {
			return false
		}
	}
	return true
}

// siteMark is the prefix of the file by which processes determine which of them share a folder.
const siteMark = ".site-"

// sites returns, by rank, the first rank sharing the same folder; nil if all share one. With several processes, it
// creates the folder. Among the processes sharing it, exactly one creates the mark: exclusive creation is decided
// by the file system, even if it caches names. All processes must call sites.
func (f Folder) sites(ctx context.Context) (sites []int, err error) {
	p, err := f.process()
	if err != nil || p.of == 1 {
		return nil, err
	}
	names, err := f.World.Gather(ctx, []byte(uuid.NewString()))
	if err != nil {
		return nil, err
	}
	mark, made := filepath.Join(f.Path, siteMark+string(names[0])), false
	defer func() {
		if made {
			if left := os.Remove(mark); !errors.Is(left, fs.ErrNotExist) { // a starting snapshot removes it too
				err = errors.Join(err, left)
			}
		}
	}()
	err = f.all(ctx, func() error {
		if err := whole.Folder(f.Path); err != nil {
			return err
		}
		m, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		made = true
		_, err = m.WriteString(strconv.Itoa(p.n))
		return errors.Join(err, m.Close())
	})
	if err != nil {
		return nil, err
	}
	var maker []byte
	if err := f.all(ctx, func() (err error) { maker, err = infile.Read(mark, 1<<10); return err }); err != nil {
		return nil, err
	}
	makers, err := f.World.Gather(ctx, maker)
	if err != nil {
		return nil, err
	}
	for _, m := range makers {
		sites = append(sites, slices.IndexFunc(makers, func(o []byte) bool { return string(o) == string(m) }))
	}
	if slices.Max(sites) == 0 {
		sites = nil
	}
	return sites, nil
}

// rest is the time that a pace rests after work, as a multiple of the work's duration. Work then takes 1/33 of a
// core, so steps that keep all cores busy are slowed down by no more than that, even if each waits for its slowest
// core.
const rest = 32

// pace spreads work over time, until a caller waits for its completion.
type pace struct {
	ctx     context.Context
	rush    chan struct{}
	hurries sync.Once
}

func newPace(ctx context.Context) *pace { return &pace{ctx: ctx, rush: make(chan struct{})} }

// hurry ends all rests.
func (p *pace) hurry() { p.hurries.Do(func() { close(p.rush) }) }

// do performs a small piece of work, and rests. After the context has ended, it does nothing and returns the cause.
func (p *pace) do(work func() error) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	began := time.Now()
	if err := work(); err != nil {
		return err
	}
	select {
	case <-p.rush:
		return nil
	default:
	}
	t := time.NewTimer(rest * time.Since(began))
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.rush:
	case <-p.ctx.Done():
	}
	return nil
}
