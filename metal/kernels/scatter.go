package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// scatter serves operations adding elements to the places named by indices. Each place, or each
// line of places, has one thread, which adds in the order of the indices, as the host does.
func scatter() Kernel {
	fs := append(indexFunctions(), Function{Name: "clear_sums", Threads: lineThreads}, Function{Name: "round_sums_bf16", Threads: lineThreads}, Function{Name: "round_sums_f16", Threads: lineThreads})
	for _, d := range []string{"f32", "bf16", "f16", "i32", "u32", "u8"} {
		for _, name := range []string{"add_lists", "add_rows", "add_along"} {
			if name == "add_lists" || d[0] != 'i' && d[0] != 'u' {
				fs = append(fs, Function{Name: name + "_" + d, Threads: lineThreads})
			}
		}
	}
	return Kernel{
		Name:       "scatter",
		Serves:     []ops.Op{ops.EmbeddingGrad, ops.AddAlongAxis, ops.ScatterAdd},
		Primitives: []string{"embedding_grad", "add_along_axis", "scatter_add"},
		Doc:        "elements added to places that indices name, in the order of the indices",
		Functions:  fs,
		Build:      scatterProgram,
	}
}

func scatterProgram(in *Instr) (*Program, error) {
	if in.Ragged() {
		return nil, refuse("adds ragged rows")
	}
	out := in.Results[0].Type
	d := out.DType
	switch d {
	case graph.F32, graph.BF16, graph.F16:
	case graph.I32, graph.U32, graph.U8:
		if in.Op == ops.ScatterAdd {
			break
		}
		fallthrough
	default:
		return nil, refuse("no elements of %s", d)
	}
	launch := func(function string, args ...Arg) Launch {
		l := Launch{Source: Source{File: "scatter.metal"}, Function: fmt.Sprintf("%s_%s", function, d), Args: args}
		l.Groups, l.Threads = line(out.Len())
		return l
	}
	var p struct{ Axis int }
	if in.Op != ops.EmbeddingGrad {
		var err error
		if p, err = paramsOf[struct{ Axis int }](in.Prim); err != nil {
			return nil, err
		}
	}
	if in.Op == ops.AddAlongAxis {
		index := in.Args[1].Type
		_, n, inner := out.Around(p.Axis)
		along, lines := index.Shape[p.Axis], out.Len()/max(n, 1)
		// The sums are f32: the result itself, or scratch memory that is then rounded to the
		// result.
		work, sums := &Program{Fault: in.indexFault(1, n)}, Out(0)
		if d != graph.F32 {
			work.Scratch, sums = []int{4 * max(out.Len(), 1)}, Scratch(0)
		}
		over := func(l Launch, n int) Launch {
			l.Groups, l.Threads = line(n)
			return l
		}
		clear := launch("clear_sums", sums, Params(out.Len()))
		clear.Function = "clear_sums"
		work.Launches = []Launch{checked(1, index.Len(), 0, n), clear,
			over(launch("add_along", In(0), In(1), sums, Params(lines, n, max(inner, 1), along)), lines)}
		if d != graph.F32 {
			work.Launches = append(work.Launches, launch("round_sums", sums, Out(0), Params(out.Len())))
		}
		return work, nil
	}
	if in.Op == ops.ScatterAdd {
		_, n, inner := out.Around(p.Axis)
		count := in.Args[1].Type.Len()
		ls, scratch := listed(1, count, n)
		zeros := in.Index(in.plan.Bufs[in.Args[1].Buf].Spec.Axes()) != 0 // the result is a pending sum
		ls = append(append([]Launch{checked(1, count, 0, n)}, ls...),
			launch("add_lists", In(0), In(2), Scratch(0), Scratch(1), Out(0), Params(out.Len(), max(n, 1), max(inner, 1), count, zeros)))
		t := &Tolerance{}
		if d.IsFloat() {
			t = nearly(0x1p-23, "sums of pairs of floats have 48 bits and the host's 53, which may round otherwise")
		}
		return &Program{Launches: ls, Scratch: scratch, Fault: in.indexFault(1, n), Tolerance: t}, nil
	}
	count := in.Args[0].Type.Len()
	ls, scratch := listed(0, count, out.Shape[0])
	ls = append(append([]Launch{checked(0, count, 0, out.Shape[0])}, ls...),
		launch("add_rows", In(1), Scratch(0), Scratch(1), Out(0), Params(out.Shape[0], max(out.Shape[1], 1), count)))
	return &Program{Launches: ls, Scratch: scratch, Fault: in.indexFault(0, out.Shape[0])}, nil
}
