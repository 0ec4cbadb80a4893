package kernels

import "github.com/gomoe/gomoe/graph"

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
	const file = "attention_grad.metal"
	rows := h.b * h.n * h.s
	delta := Launch{
		Source: Source{File: file}, Function: "attention_delta_" + suffix, Groups: [3]int{rows, 1, 1}, Threads: [3]int{32, 1, 1},
		Args: []Arg{In(3), In(5), In(6), Scratch(0), Params(rows, h.s, h.n, h.v)},
	}
	args := func(first, second int) []Arg {
		return []Arg{In(0), In(1), In(2), In(5), In(4), Scratch(0), Out(first), Out(second), t.lengths, t.start, t.bias, params, t.params}
	}
	q := h.launch(file, "attention_grad_q", suffix, h.s, 16, h.n, 2, 0, args(0, 0)...)
	kv := h.launch(file, "attention_grad_kv", suffix, h.r, 16, h.m, 2, 0, args(1, 2)...)
	work := t.program(delta, q, kv)
	work.Scratch = []int{max(rows, 1) * graph.F32.Size()}
	return work, nil
}
