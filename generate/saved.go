package generate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
)

// StatesName is the name of the file in Options.States.
const StatesName = "states.safetensors"

// Metadata of the file: the model and the mesh of its states.
const madeBy, madeOn = "gomoe.model", "gomoe.mesh"

// StatesError reports that the states in Options.States cannot be used.
type StatesError struct {
	Path string
	Err  error
}

func (e *StatesError) Error() string {
	return fmt.Sprintf("generate: %s: %v; remove the file, or give another folder", e.Path, e.Err)
}

func (e *StatesError) Unwrap() error { return e.Err }

// sampled is the number of bytes of a weight that identity reads at its beginning, middle and end.
const sampled = 4096

// identity returns a hash of the model, its adapters and the types of its states: of the program of a step, and of
// samples of every weight.
func (g *Generator) identity() (string, error) {
	small := newGenerator(g.model, g.c, g.o)
	small.forms, small.o.Room = g.forms, 1
	p, _, err := small.program(shape{1, 1, false})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	add := func(name string, mem []byte) {
		fmt.Fprintf(h, "\n%s %d ", name, len(mem))
		for _, at := range []int{0, len(mem) / 2, len(mem)} {
			h.Write(mem[max(0, at-sampled/2):min(len(mem), at+sampled/2)])
		}
	}
	io.WriteString(h, p.String())
	for _, t := range g.c.Tensors {
		add(t.Name, t.Mem)
	}
	for _, name := range slices.Sorted(maps.Keys(g.in)) {
		if g.in[name].Lent() > 0 { // memory of the files
			continue
		}
		parts, err := g.in[name].Parts()
		if err != nil {
			return "", err
		}
		for _, x := range parts {
			add(name, x.Bytes())
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// stored is the form of a sequence's states in the file: tokens, and for each rank the bytes of every state, of rows
// those of the tokens only.
type stored struct {
	g *Generator
	x *slot
	i int // of the sequence in the file
}

func (s stored) name(more ...any) string {
	name := strconv.Itoa(s.i)
	for _, m := range more {
		name += fmt.Sprint(".", m)
	}
	return name
}

// each calls f for every part of the sequence's states of its tokens, and of its snapshots.
func (s stored) each(f func(name string, mem []byte) error) error {
	do := func(of string, states map[string]*runtime.Array) error {
		for _, x := range s.g.states[shape{1, 1, false}] {
			a, ok := states[x.Name]
			if !ok {
				continue
			}
			parts, err := a.Parts()
			if err != nil {
				return err
			}
			for _, p := range parts {
				mem := p.Bytes()
				if x.Kind == nn.ByPosition {
					mem = mem[:len(mem)/s.g.o.Room*len(s.x.seen)]
				}
				if err := f(s.name(of, p.Rank, x.Name), mem); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := do("states", s.x.states)
	for _, c := range s.x.snapshots {
		if err == nil && c.tokens > 0 {
			err = do(fmt.Sprint("snapshot", c.tokens), c.states)
		}
	}
	return err
}

// store writes the states of all sequences with tokens to a file of the folder Options.States.
func (g *Generator) store() error {
	var tensors []tensor.Source
	n := 0
	for _, x := range g.slots {
		s := stored{g, x, n}
		if len(x.seen) == 0 {
			continue
		}
		n++
		ids, err := array.Of(x.seen, len(x.seen))
		if err != nil {
			return err
		}
		tensors = append(tensors, tensor.Of(s.name("tokens"), ids))
		plain, err := array.Of([]int32{int32(x.plain)}, 1)
		if err != nil {
			return err
		}
		tensors = append(tensors, tensor.Of(s.name("plain"), plain))
		if err := s.each(func(name string, mem []byte) error {
			tensors = append(tensors, tensor.Of(name, array.Over(graph.T(graph.U8, len(mem)), mem)))
			return nil
		}); err != nil {
			return err
		}
	}
	return safetensors.Write(filepath.Join(g.o.States, StatesName), map[string]string{madeBy: g.made, madeOn: g.o.Mesh.String()}, tensors)
}

// restore reads the states written by store, as many as there are sequences. Sequences with more tokens than there is
// room for are left out.
func (g *Generator) restore(ctx context.Context) error {
	path := filepath.Join(g.o.States, StatesName)
	err := whole.Folder(g.o.States)
	if err == nil {
		g.release, err = whole.Own(g.o.States)
	}
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	f, err := safetensors.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = g.restoreFrom(ctx, f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return &StatesError{path, err}
	}
	return nil
}

func (g *Generator) restoreFrom(ctx context.Context, f *safetensors.File) error {
	switch {
	case f.Metadata[madeBy] != g.made:
		return errors.New("the states are of another model, of other weights, or of caches of another type")
	case f.Metadata[madeOn] != g.o.Mesh.String():
		return fmt.Errorf("the states are of the mesh %q, want %q", f.Metadata[madeOn], g.o.Mesh)
	}
	all := map[string]tensor.Tensor{}
	for _, t := range f.Tensors {
		all[t.Name] = t
	}
	ints := func(name string) ([]int32, error) {
		a, err := all[name].Array()
		if err != nil {
			return nil, err
		}
		if a.Type.DType != graph.I32 {
			return nil, fmt.Errorf("tensor %s is %s, want i32", name, a.Type)
		}
		return slices.Clone(array.Data[int32](a)), nil
	}
	next := 0
	for i := 0; next < len(g.slots); i++ {
		x := g.slots[next]
		s := stored{g, x, i}
		if _, ok := all[s.name("tokens")]; !ok {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		seen, err := ints(s.name("tokens"))
		if err != nil {
			return err
		}
		plain, err := ints(s.name("plain"))
		if err != nil {
			return err
		}
		if len(seen) > g.o.Room {
			continue
		}
		if len(plain) != 1 || plain[0] < 0 || int(plain[0]) > len(seen) {
			return fmt.Errorf("tensor %s is %v, want one number up to %d", s.name("plain"), plain, len(seen))
		}
		x.seen, x.plain, x.used = seen, int(plain[0]), 1 // slots without a text are taken first
		if err := g.snapshotsOf(s, all); err != nil {
			return err
		}
		if err := s.each(func(name string, mem []byte) error {
			t, ok := all[name]
			if !ok || len(t.Mem) != len(mem) {
				return fmt.Errorf("tensor %s has %d bytes, want %d", name, len(t.Mem), len(mem))
			}
			copy(mem, t.Mem)
			return nil
		}); err != nil {
			return err
		}
		next++
	}
	return nil
}

// snapshotsOf makes room for the last snapshots that the file has of a sequence.
func (g *Generator) snapshotsOf(s stored, all map[string]tensor.Tensor) (err error) {
	to := 0
	for n := len(s.x.seen); n > 0 && to < len(s.x.snapshots); n-- {
		for _, x := range g.states[shape{1, 1, false}] {
			if !carried(x) {
				continue
			}
			if _, ok := all[s.name(fmt.Sprint("snapshot", n), g.jobs[shape{1, 1, false}].Local()[0], x.Name)]; ok {
				c := &s.x.snapshots[to]
				if c.states == nil {
					if c.states, err = g.emptyStates(carried); err != nil {
						return err
					}
				}
				c.tokens = n
				to++
			}
			break
		}
	}
	return nil
}
