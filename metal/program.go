package metal

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/mtl"
)

// program is the compiled part of a plan for one rank's GPU.
type program struct {
	plan    *lowering.Plan
	instrs  []instr // per instruction of the plan; instructions run by the host have no launches
	scratch int     // size of the scratch memory, reused by successive instructions
	records int     // number of status records
}

// instr is the GPU's work for one instruction.
type instr struct {
	label    string
	launches []launch
	scratch  []piece // memory shared by the instruction's launches
	status   int     // the number of the status record, or -1 if there is none
	fault    func([kernels.StatusLen]int32) error
}

// piece is part of the scratch memory, in bytes.
type piece struct{ at, size int }

// launch is one dispatch.
type launch struct {
	pipeline        *mtl.Pipeline
	args            []kernels.Arg
	memory          []int
	groups, threads [3]int
}

// scratchAlign is the alignment of scratch memory: a cache line of the GPU.
const scratchAlign = 128

// compile makes the program of a rank. It blocks while Metal's compiler is working, checking ctx
// between the sources.
func (d *Device) compile(ctx context.Context, p *lowering.Plan, rank int) (*program, error) {
	prog := &program{plan: p, instrs: make([]instr, len(p.Instrs))}
	built := make([]*kernels.Program, len(p.Instrs))
	var texts sources
	records := 0
	for i := range p.Instrs {
		if !p.Instrs[i].On {
			continue
		}
		b, err := d.build(p, i, rank)
		if err != nil {
			return nil, fmt.Errorf("metal: instruction %d, %s (%s), which the plan leaves to the device: %w", i, p.Instrs[i].Name(), p.Instrs[i].Pos, err)
		}
		built[i] = b
		texts.add(b)
		x := &prog.instrs[i]
		x.label = fmt.Sprintf("%d %s (%s)", i, p.Instrs[i].Name(), p.Instrs[i].Pos)
		if x.status, x.fault = -1, b.Fault; reports(b) {
			x.status = records
			records++
		}
		at := 0
		for _, n := range b.Scratch {
			x.scratch = append(x.scratch, piece{at, max(n, 1)})
			at += (max(n, 1) + scratchAlign - 1) / scratchAlign * scratchAlign
		}
		prog.scratch = max(prog.scratch, at)
	}
	prog.records = records
	libraries, err := d.libraries(ctx, &texts)
	if err != nil {
		return nil, err
	}
	for i, b := range built {
		if b == nil {
			continue
		}
		for _, l := range b.Launches {
			if min(l.Groups[0], l.Groups[1], l.Groups[2]) == 0 {
				continue
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			f, err := d.gpu.Pipeline(libraries[l.Source.File], l.Function, constants(l.Constants)...)
			if err != nil {
				return nil, fmt.Errorf("metal: instruction %s: %w", prog.instrs[i].label, err)
			}
			if w := f.Facts().Width; w != simdWidth {
				return nil, fmt.Errorf("metal: instruction %s: simdgroups of %s have %d threads on %s, want %d, which the kernels are written for", prog.instrs[i].label, l.Function, w, d.GPU(), simdWidth)
			}
			if n := l.Threads[0] * l.Threads[1] * l.Threads[2]; n > f.Facts().MaxThreads {
				return nil, fmt.Errorf("metal: instruction %s: %s wants groups of %d threads, and has registers for %d on %s", prog.instrs[i].label, l.Function, n, f.Facts().MaxThreads, d.GPU())
			}
			prog.instrs[i].launches = append(prog.instrs[i].launches, launch{f, l.Args, l.Memory, l.Groups, l.Threads})
		}
	}
	return prog, nil
}

// build returns the GPU's work for instruction i of a plan on a rank.
func (d *Device) build(p *lowering.Plan, i, rank int) (*kernels.Program, error) {
	in := kernels.Of(p, i, rank)
	in.Tensors = d.noTensors == ""
	b, _, err := kernels.Build(in)
	return b, err
}

// reports reports whether a launch of p has a status record.
func reports(p *kernels.Program) bool {
	return slices.ContainsFunc(p.Launches, func(l kernels.Launch) bool {
		return slices.ContainsFunc(l.Args, func(a kernels.Arg) bool { return a.Kind == kernels.OfStatus })
	})
}

// sources are the texts containing a plan's kernels.
type sources struct {
	files []string // "" stands for generated text
	made  []string
}

func (s *sources) add(p *kernels.Program) {
	for _, l := range p.Launches {
		if !slices.Contains(s.files, l.Source.File) {
			s.files = append(s.files, l.Source.File)
		}
		if l.Source.File == "" && !slices.Contains(s.made, l.Source.Made) {
			s.made = append(s.made, l.Source.Made)
		}
	}
}

// compilers is the number of texts compiled concurrently.
const compilers = 4

// libraries compiles the texts and returns the libraries by file name.
func (d *Device) libraries(ctx context.Context, s *sources) (map[string]*mtl.Library, error) {
	var (
		wg    sync.WaitGroup
		turns = make(chan struct{}, compilers)
		out   = make([]*mtl.Library, len(s.files))
		errs  = make([]error, len(s.files))
	)
	for i, file := range s.files {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				errs[i] = context.Cause(ctx)
				return
			}
			out[i], errs[i] = d.library(file, s.made, d.noTensors == "")
		})
	}
	wg.Wait()
	libraries := map[string]*mtl.Library{}
	for i, file := range s.files {
		if errs[i] != nil {
			return nil, errs[i]
		}
		libraries[file] = out[i]
	}
	return libraries, nil
}

// library compiles a file, or made texts, including the functions using tensor operations if tensors
// is set.
func (d *Device) library(file string, made []string, tensors bool) (*mtl.Library, error) {
	var text string
	var o mtl.Options
	var err error
	switch {
	case file == "":
		file = "functions made for the plan"
		text, err = kernels.MadeText(made)
	case tensors:
		if text, tensors, err = kernels.TensorText(file); tensors {
			o.Language = mtl.MSL40
		}
	default:
		text, err = kernels.Text(file)
	}
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	l, err := d.gpu.Library(text, o)
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", file, err)
	}
	return l, nil
}

func constants(values map[int]any) []mtl.Constant {
	var list []mtl.Constant
	for i, v := range values {
		list = append(list, mtl.Constant{Index: i, Value: v})
	}
	return list
}
