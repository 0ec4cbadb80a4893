package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/primitives"
)

// checkIDs returns a launch that looks for an element of argument i, i32, below lo or
// not below n, and what explains its record. Launches behind it see that element, too:
// they take care not to read past anything with it.
func checkIDs(in *Instr, i, lo, n int, what string) (Launch, func([StatusLen]int32) error) {
	ids := in.Args[i]
	l := Launch{
		Source: Source{File: "ids.metal"}, Function: "check_ids",
		Args:   []Arg{In(i), Status(), Params(ids.Type.Len(), lo, n)},
		Groups: [3]int{1, 1, 1}, Threads: [3]int{256, 1, 1},
	}
	if ids.Type.Len() == 0 {
		l.Groups = [3]int{}
	}
	spec := in.plan.Bufs[ids.Buf].Spec
	return l, func(record [StatusLen]int32) error {
		a := &lowering.Args{Mesh: in.Mesh, Rank: in.Rank}
		return primitives.WrongID(a, spec, graph.Type{DType: ids.Type.DType, Shape: ids.Type.Shape}, int(record[0]), record[1], lo, n, what)
	}
}
