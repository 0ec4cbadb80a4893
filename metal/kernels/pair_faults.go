package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// choicesOf returns the pairs of the instruction's first argument: the tokens' choices, the
// argument of ep_prepare, or a routing made by another primitive. The fault explains a record about
// nonexistent experts: see pair_faults.metal.
func choicesOf(in *Instr, experts int) (p *pairs, fault func([StatusLen]int32) error, err error) {
	ids := in.Args[0]
	prepare, chosen := in.Prim.(primitives.PrepareOp)
	if ids.Type.Rank() == 3 {
		chosen = false // a routing, with a queue position next to each expert
	}
	stride := 1
	if !chosen {
		if ids.Type.Rank() != 3 || ids.Type.DType != graph.I32 {
			return nil, nil, refuse("%s is neither what tokens choose nor a routing", ids.Type)
		}
		stride = 2
	}
	if p, err = pairsOf(ids.Type, stride, 0, experts); err != nil {
		return nil, nil, err
	}
	first, choices := in.Start(ids, 0), ids.Type.Shape[1]
	return p, func(record [StatusLen]int32) error {
		if record[0] == StatusClear {
			return nil
		}
		pair, expert := int(record[0]), int(uint32(record[2]))|int(record[3])<<32
		if record[1] != StatusClear { // a mistake was found before any pair was counted
			pair = int(record[1])
		}
		if !chosen {
			return primitives.DispatchOp{}.NoExpert(pair, expert, experts)
		}
		return prepare.NoExpert(first+pair/choices, pair%choices, expert)
	}, nil
}

// explain returns the launch completing the status record about ids.
func (p *pairs) explain(file string, ids Arg) Launch {
	return Launch{
		Source: Source{File: file}, Function: "pair_explain" + p.suffix,
		Args: []Arg{ids, Status(), p.params()}, Groups: [3]int{1, 1, 1}, Threads: [3]int{1, 1, 1},
	}
}

// explaining returns the functions of pair_faults.metal, and more.
func explaining(more ...Function) []Function {
	return append([]Function{{"pair_explain_i32", 1, 0}, {"pair_explain_i64", 1, 0}}, more...)
}
