package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// through locates the experts' rows read by a product: in their order, or through an index, from
// tokens or from received rows (see primitives.Joins).
type through struct {
	x, at    Arg // the rows, or the array they are gathered from, and the index
	indexed  bool
	elem     graph.DType
	apart    int      // row stride in elements
	rest     int      // the first argument following the rows
	launches []Launch // making the index
	scratch  []int
}

// gathered reports whether an instruction reads experts' rows through an index.
func gathered(in *Instr) bool { return in.op().Has(ops.Indexed | ops.Right) }

// shifted returns how many arguments more there are because rows are read through an index.
func shifted(in *Instr) int {
	switch {
	case !gathered(in):
		return 0
	case len(in.plan.Bufs[in.Args[0].Buf].Packed) > 0:
		return 1
	}
	return 2
}

// throughOf locates the rows of an instruction's first arguments, each having `deep` elements.
func throughOf(in *Instr, deep int) (through, error) {
	x := in.Args[0]
	t := through{x: In(0), at: In(0), elem: x.Type.DType, apart: deep, rest: 1 + shifted(in)} // a placeholder, which is not read
	switch t.rest {
	case 1:
		if !x.Ragged {
			return t, refuse("rows that are no experts'")
		}
	case 2: // received rows, and the index
		t.indexed, t.at = true, In(1)
		t.elem = in.plan.Bufs[x.Buf].Packed[0].DType
		t.apart = x.Type.Shape[1] / t.elem.Size()
	default: // tokens, the place of each pair and the row of each place
		pairs, places := in.Args[1].Type, in.Args[2].Type.Len()
		t.indexed, t.at, t.scratch = true, Scratch(0), []int{4 * places}
		params := Params(pairs.Len(), pairs.Shape[1], places, places)
		t.launches = []Launch{each("through.metal", "through_set", pairs.Len(), In(1), In(2), t.at, params)}
	}
	return t, nil
}

// program returns the launches making the index, followed by a launch.
func (t *through) program(l Launch) *Program {
	return &Program{Scratch: t.scratch, Launches: append(t.launches, l)}
}

// throughFunctions returns the function making an index, and more.
func throughFunctions(more []Function) []Function {
	return append([]Function{{"through_set", copyThreads, 0}}, more...)
}
