package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/lowering"
)

// inputs holds the flags giving a program its input arrays.
type inputs struct {
	files *pairs
	cast  bool
}

func newInputs(fs *flag.FlagSet) *inputs {
	f := &inputs{files: newPairs(fs, "in", "input=file.npy", "give an input, as `input=file.npy`; repeatable")}
	fs.BoolVar(&f.cast, "cast", false, "convert the elements of .npy files to the type of their input; floats are rounded, and an element that an integer type does not hold is an error")
	return f
}

// known returns an error if a given name is no input of p.
func (f *inputs) known(path string, p *graph.Program) error {
	for _, name := range f.files.names {
		if p.Input(name) == nil {
			return in(path, fmt.Errorf("-in %s: %w", name, noInput(p, name)))
		}
	}
	return nil
}

// read returns the arrays of the given files. Other inputs are absent from the map.
func (f *inputs) read(path string, p *graph.Program) (map[string]array.Array, error) {
	if err := f.known(path, p); err != nil {
		return nil, err
	}
	out := map[string]array.Array{}
	for _, name := range f.files.names {
		file, want := f.files.value[name], p.Input(name).Type
		a, err := array.ReadFileIf(file, func(got graph.Type) error {
			what := fmt.Sprintf("-in %s: %s holds %s, but input %s of %s is %s", name, file, got, name, p.Name, want)
			switch {
			case got.Equal(want):
			case !slices.Equal(got.Shape, want.Shape):
				return in(path, fmt.Errorf("%s; give an array of that shape", what))
			case !f.cast && want.DType.IsBlock():
				return in(path, fmt.Errorf("%s; make blocks of its elements here with -cast", what))
			case !f.cast:
				return in(path, fmt.Errorf("%s; save it as %s, or convert its elements here with -cast", what, want.DType))
			}
			return nil
		})
		if errors.As(err, new(*located)) {
			return nil, err // the error names the file's type
		}
		if err != nil {
			return nil, fmt.Errorf("-in %s: %w", name, err)
		}
		if !a.Type.Equal(want) {
			cast := a.As(want.DType)
			if want.DType.IsInt() && !slices.Equal(cast.As(a.Type.DType).Float64s(), a.Float64s()) {
				return nil, in(path, fmt.Errorf("-in %s: %s has elements that %s does not hold, such as fractions and numbers out of range, and -cast would change them", name, file, want.DType))
			}
			a = cast
		}
		out[name] = a
	}
	return out, nil
}

// random returns a value for input i that suits a first run: floats uniform in [-1, 1), including
// weights in blocks, and zeros for integers, because these are mostly indices.
func random(seed uint64, i int, t graph.Type) array.Array {
	a := array.New(t)
	if !t.DType.IsFloat() && !t.DType.IsF8() && !t.DType.IsBlock() {
		return a
	}
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	x := make([]float64, t.Len())
	for j := range x {
		x[j] = 2*r.Float64() - 1
	}
	if err := a.SetFloat64s(x); err != nil {
		panic(err) // cannot happen: the length matches the type
	}
	return a
}

// complete adds random values for the missing inputs of p.
func complete(p *graph.Program, given map[string]array.Array, seed uint64) {
	for i, v := range p.In {
		if _, ok := given[v.Name]; !ok {
			given[v.Name] = random(seed, i, v.Type)
		}
	}
}

// missing returns an error if inputs of p are not given.
func missing(path string, p *graph.Program, given *pairs) error {
	var names []string
	for _, v := range p.In {
		if _, ok := given.value[v.Name]; !ok {
			names = append(names, v.Name+" "+v.Type.String())
		}
	}
	if names == nil {
		return nil
	}
	return in(path, fmt.Errorf("inputs of %s that are not given: %s; give each as -in name=file.npy, or say -random 1 for random ones", p.Name, strings.Join(names, ", ")))
}

// fits returns an error if running a program needs more memory than limit.
func fits(path string, plan *lowering.Plan, limit size) error {
	need := float64(plan.Report(runtime.GOMAXPROCS(0)).Mem.OfRanks(plan.Mesh.Ranks()))
	for _, ports := range [][]lowering.Port{plan.In, plan.Out} {
		for _, q := range ports {
			need += float64(q.Type.Bytes()) // arrays given and returned
		}
	}
	for _, b := range plan.Bufs {
		if b.Type.Bytes() > int64(limit) { // adding the arena's size could overflow
			need = max(need, float64(b.Type.Bytes()))
		}
	}
	if need <= float64(limit) {
		return nil
	}
	bytes := "more than can be counted"
	if need < 1<<62 {
		bytes = memory.Format(int64(need))
	}
	return in(path, fmt.Errorf("program %s needs %s of memory in this process, whose mesh has %d ranks, and -memory allows %s; gomoe plan -brief lists the buffers", plan.Name, bytes, plan.Mesh.Ranks(), memory.Format(int64(limit))))
}

// memoryFlag adds the flag limiting memory.
func memoryFlag(fs *flag.FlagSet) *size {
	limit := size(16 << 30)
	fs.Var(&limit, "memory", "the most `bytes` that the program may need")
	return &limit
}

// open compiles p and opens its ranks, if they fit into the memory limit.
func open(ctx context.Context, path string, p *graph.Program, cfg gomoe.Config, limit size) (*gomoe.Job, error) {
	plan, err := gomoe.Compile(ctx, p, cfg)
	if err != nil {
		return nil, in(path, err)
	}
	if err := fits(path, plan, limit); err != nil {
		return nil, err
	}
	j, err := gomoe.Open(ctx, p, cfg)
	return j, in(path, err)
}
