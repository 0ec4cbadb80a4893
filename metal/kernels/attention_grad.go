package kernels

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

func attentionGradFunctions() (fs []Function) {
	for _, suffix := range headTypes() {
		fs = append(fs, Function{Name: "attention_delta_" + suffix, Threads: 32})
		for _, n := range headSizes() {
			for _, of := range []string{"q", "kv"} {
				fs = append(fs, Function{Name: fmt.Sprintf("attention_grad_%s_%d_%s", of, n, suffix), Threads: attentionThreads, Memory: attentionMemory(n)})
			}
		}
	}
	return fs
}

func attentionGradProgram(in *Instr) (*Program, error) {
	h, p, suffix, params, err := headsOf(in)
	if err != nil {
		return nil, err
	}
	if k, q := in.Args[1].Type.DType, in.Args[0].Type.DType; k != q {
		return nil, refuse("keys of %s for queries of %s", k, q)
	}
	t, err := h.termsOf(in, p, 7)
	if err != nil {
		return nil, err
	}
	if h.n == 0 && in.Results[1].Type.Len() > 0 {
		return nil, refuse("keys without queries")
	}
	t.constants[4] = t.constants[1] // queries have the type of keys
	const file = "attention_grad.metal"
	rows := h.b * h.n * h.s
	delta := Launch{
		Source: Source{File: file}, Function: "attention_delta_" + suffix, Groups: [3]int{rows, 1, 1}, Threads: [3]int{32, 1, 1},
		Args: []Arg{In(3), In(5), In(6), Scratch(0), Params(rows, h.s, h.n, h.v)},
	}
	grad := func(of string, rows, heads, first, second int) Launch {
		return Launch{
			Source: Source{File: file}, Function: fmt.Sprintf("attention_grad_%s_%d_%s", of, h.wide(), suffix), Constants: map[int]any{},
			Args:   []Arg{In(0), In(1), In(2), In(5), In(4), Scratch(0), Out(first), Out(second), t.lengths, t.start, t.bias, params, t.params},
			Groups: [3]int{pieces(rows, attentionRows), heads, h.b}, Threads: [3]int{attentionThreads, 1, 1},
		}
	}
	work := t.program(delta, grad("q", h.s, h.n, 0, 0), grad("kv", h.r, h.m, 1, 2))
	work.Scratch = []int{max(rows, 1) * graph.F32.Size()}
	return work, nil
}
