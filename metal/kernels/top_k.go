package kernels

import "github.com/gomoe/gomoe/lowering/ops"

// topK serves operations that find the largest elements of rows.
func topK() Kernel {
	return Kernel{
		Name: "top_k", Serves: []ops.Op{ops.TopK}, Primitives: []string{"top_k"},
		Doc:   "finds the largest elements along the last dimension, of equals the first",
		Build: topKProgram,
		Functions: []Function{
			{"top_k_f32", 32 * routerTogether, threadgroupMemory},
			{"top_k_f16", 32 * routerTogether, threadgroupMemory},
			{"top_k_bf16", 32 * routerTogether, threadgroupMemory},
		},
	}
}

// topKMost is the largest k for which finding one element after another is fast enough.
const topKMost = 64

func topKProgram(in *Instr) (*Program, error) {
	p, err := paramsOf[struct{ K int }](in.Prim)
	if err != nil {
		return nil, err
	}
	if in.Ragged() {
		return nil, refuse("no kernel for experts' rows")
	}
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	if p.K > topKMost {
		return nil, refuse("the largest %d are looked for, want at most %d", p.K, topKMost)
	}
	columns := x.Shape[x.Rank()-1]
	words := (columns + 3) / 4 * 4
	together := max(1, min(routerTogether, routerMemory/max(4*words, 1)))
	mem, err := memory(together*words, "rows")
	if err != nil {
		return nil, err
	}
	rows := x.Len() / max(columns, 1)
	if p.K == 0 {
		rows = 0
	}
	return &Program{Launches: []Launch{{
		Source: Source{File: "top_k.metal"}, Function: "top_k_" + suffix,
		Args:   []Arg{In(0), Out(0), Out(1), Params(rows, columns, p.K, words)},
		Memory: mem, Groups: [3]int{(rows + together - 1) / together, 1, 1}, Threads: [3]int{32 * together, 1, 1},
	}}}, nil
}
