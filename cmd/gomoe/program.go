package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/world"
)

// largest is the limit on a command's input text in bytes.
const largest = 64 << 20

// read returns the text of the file at path, or of standard input if path is -, and the name to use
// for the file in errors.
func (t *tool) read(ctx context.Context, path string) (name, text string, err error) {
	b, err := readAny(ctx, path, t.stdin, largest)
	if err != nil {
		return "", "", err
	}
	if name = path; path == "-" {
		name = "stdin"
	}
	return name, strings.TrimPrefix(string(b), "\ufeff"), nil // byte order mark, written by some editors
}

// readAny returns the contents of a file or a pipe, or of stdin if path is -. It stops reading when
// ctx ends.
func readAny(ctx context.Context, path string, stdin io.Reader, limit int64) ([]byte, error) {
	if path == "-" {
		return infile.ReadStream(ctx, "standard input", stdin, limit)
	}
	return infile.ReadAny(ctx, path, limit)
}

// program returns the last program of a file.
func (t *tool) program(ctx context.Context, path string) (*graph.Program, error) {
	name, text, err := t.read(ctx, path)
	if err != nil {
		return nil, err
	}
	return gomoe.Parse(name, text)
}

// in prefixes err with the name of its file, unless err already names a line.
func in(path string, err error) error {
	var g *graph.Error
	var r *runtime.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &g) && g.Pos.File != "", errors.As(err, &r) && r.Pos.File != "":
		return &located{err}
	}
	name := filepath.Base(path)
	if path == "-" {
		name = "stdin"
	}
	return &located{fmt.Errorf("%s: %w", name, err)}
}

// located is an error whose text starts with the name of its file.
type located struct{ err error }

func (e *located) Error() string { return e.err.Error() }
func (e *located) Unwrap() error { return e.err }

// kernelsFlag adds the flag choosing the kernels, which takes effect before any run.
func kernelsFlag(fs *flag.FlagSet) {
	fs.Func("kernels", "`name` of the kernels to use: portable (the reference), avx2, avx512, amx or neon; the best that the processor runs if not given", gomoe.UseKernels)
}

// placing holds the flags for placing a program on ranks.
type placing struct {
	mesh, order   string
	place, donate *pairs
	asWritten     bool
	overlap       lowering.Overlap
	device        string
}

func newPlacing(fs *flag.FlagSet, donate bool) *placing {
	p := &placing{}
	fs.StringVar(&p.mesh, "mesh", "", "`axes` of the mesh with their sizes, such as dp=2,ep=4; instead of a size, which of the experts each rank has: ep=0-95/96-127, or each rank's share of them: ep=128:3/1; none is one rank")
	orderFlag(fs, &p.order)
	fs.BoolVar(&p.asWritten, "as-written", false, "place and run the program as it is written, without folding constants, merging equations, joining and fusing instructions")
	p.place = newPairs(fs, "place", "input=spec", "split an input, as `input=spec`: one entry per dimension, mesh axes or _, such as x=dp.ep,_; * in the input's name stands for any characters; repeatable")
	if donate {
		p.donate = newPairs(fs, "donate", "input=result", "let a result take over the memory of an input, as `input=result`; repeatable")
	}
	return p
}

// orderFlag adds the flag ordering the ranks in the mesh.
func orderFlag(fs *flag.FlagSet, order *string) {
	fs.StringVar(order, "order", "", "the `ranks` in mesh order, the last axis varying fastest, such as 0,2,1,3; 0,1,2,… if not given")
}

// meshOf returns the mesh of the flags -mesh and -order.
func meshOf(mesh, order string) (sharding.Mesh, error) {
	m, err := world.ParseMesh(mesh, nil)
	var misfit *world.MisfitError
	switch {
	case errors.As(err, &misfit):
		return m, err
	case err != nil:
		return m, usagef("-mesh: %w", err)
	}
	if m, err = m.Ordered(order); err != nil {
		return m, usagef("-order: %w", err)
	}
	return m, nil
}

// overlapFlag adds the flag choosing the computation overlapped with collectives.
func (f *placing) overlapFlag(fs *flag.FlagSet) {
	fs.TextVar(&f.overlap, "overlap", lowering.OverlapOff, "overlap `collectives` with computation: off, or collectives (run instructions that do not depend on them); the results keep their bits")
}

// deviceFlag adds the flag choosing the device for kernels.
func (f *placing) deviceFlag(fs *flag.FlagSet) { deviceFlag(fs, &f.device) }

func deviceFlag(fs *flag.FlagSet, name *string) {
	fs.StringVar(name, "device", "", "`device` for kernels: host, metal (Apple's GPU), or metal-emulated (the same kernels on this processor, slow, for testing); host if not given")
}

// openDevice opens the named device for cfg, and returns the function closing it.
func openDevice(ctx context.Context, name string, cfg *gomoe.Config) (end func() error, err error) {
	if _, err := gomoe.TargetOf(name); err != nil {
		return nil, usagef("-device: %w", err)
	}
	d, err := gomoe.OpenDevice(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("-device: %w", err)
	}
	if d == nil {
		return func() error { return nil }, nil
	}
	cfg.Device = d
	return d.Close, nil
}

// config returns the flags' settings for program p, read from path.
func (f *placing) config(path string, p *graph.Program) (gomoe.Config, error) {
	cfg := gomoe.Config{Place: map[string]sharding.Spec{}, Donate: map[string]int{}, Optimize: gomoe.SwitchTo(!f.asWritten), Overlap: f.overlap}
	var err error
	if cfg.Mesh, err = meshOf(f.mesh, f.order); err != nil {
		return cfg, err
	}
	if f.asWritten && f.overlap != lowering.OverlapOff {
		return cfg, usagef("-overlap %s: -as-written keeps the order of instructions; give one of them", f.overlap)
	}
	if cfg.Target, err = gomoe.TargetOf(f.device); err != nil {
		return cfg, usagef("-device: %w", err)
	}
	if cfg.Target != nil && f.overlap != lowering.OverlapOff {
		return cfg, usagef("-overlap %s: a device works during collectives by itself; give one of -device and -overlap", f.overlap)
	}
	inputs := map[string]bool{}
	for _, v := range p.In {
		inputs[v.Name] = true
	}
	for _, name := range f.place.names {
		if !inputs[name] && !strings.Contains(name, "*") {
			return cfg, in(path, fmt.Errorf("-place %s: %w", name, noInput(p, name)))
		}
		if cfg.Place[name], err = sharding.ParseSpec(f.place.value[name]); err != nil {
			return cfg, usagef("-place %s: %w", name, err)
		}
	}
	if f.donate == nil {
		return cfg, nil
	}
	if len(f.donate.names) == 0 {
		return cfg, nil
	}
	results := resultsOf(p)
	for _, name := range f.donate.names {
		if !inputs[name] {
			return cfg, in(path, fmt.Errorf("-donate %s: %w", name, noInput(p, name)))
		}
		if cfg.Donate[name], err = results.of(f.donate.value[name]); err != nil {
			return cfg, in(path, fmt.Errorf("-donate %s: %w", name, err))
		}
	}
	return cfg, nil
}

// results finds the results of a program by name. It finds the first of several results having the
// same name.
type results struct {
	p     *graph.Program
	names map[*graph.Value]string
	index map[string]int
}

func resultsOf(p *graph.Program) results {
	r := results{p, p.Names(), map[string]int{}}
	for i, v := range slices.Backward(p.Out) {
		r.index[r.names[v]] = i
	}
	return r
}

// of returns the index of a result, given by its name or its index.
func (r results) of(s string) (int, error) {
	if i, ok := r.index[s]; ok {
		return i, nil
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < len(r.p.Out) {
		return n, nil
	}
	var all []string
	for _, v := range r.p.Out {
		all = append(all, r.names[v]+" "+v.Type.String())
	}
	return 0, fmt.Errorf("program %s has no result %s; its results are %s", r.p.Name, s, strings.Join(all, ", "))
}

func noInput(p *graph.Program, name string) error {
	return fmt.Errorf("program %s has no input %s; its inputs are %s", p.Name, name, orNone(typed(p.In)))
}

func typed(vs []*graph.Value) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Name+" "+v.Type.String())
	}
	return out
}

func orNone(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}

// wanted checks the names of a -wrt flag.
func wanted(p *graph.Program, names []string) error {
	var floats []*graph.Value
	for _, v := range p.In {
		if v.Type.DType.IsFloat() {
			floats = append(floats, v)
		}
	}
	for i, name := range names {
		v := p.Input(name)
		switch {
		case v == nil:
			return fmt.Errorf("-wrt %s: %w", name, noInput(p, name))
		case !v.Type.DType.IsFloat():
			return fmt.Errorf("-wrt %s: input %s is %s, and only float types have a derivative: %s", name, name, v.Type, orNone(typed(floats)))
		case slices.Contains(names[:i], name):
			return fmt.Errorf("-wrt %s: given twice", name)
		}
	}
	if len(floats) == 0 {
		return fmt.Errorf("program %s has no input of float type, so it has no derivative", p.Name)
	}
	return nil
}
