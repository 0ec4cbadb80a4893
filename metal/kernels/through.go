package kernels

import (
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// through is where a product reads experts' rows: in their order, or through an index, from tokens
// or from rows that have arrived (see primitives.Joins).
type through struct {
	x, at    Arg // the rows, or what they are read from, and the index
	indexed  bool
	elem     graph.DType
	apart    int      // elements from a row to the next
	rest     int      // the first argument behind
	launches []Launch // that make the index
	scratch  []int
}

// gathered reports whether an instruction reads experts' rows through an index.
func gathered(in *Instr) bool { return strings.HasSuffix(in.Name, "_gathered") }

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

// throughOf returns where an instruction reads the rows of its first arguments, of `deep` elements.
func throughOf(in *Instr, deep int) (through, error) {
	x := in.Args[0]
	t := through{x: In(0), at: In(0), elem: x.Type.DType, apart: deep, rest: 1 + shifted(in)} // a placeholder, which is not read
	switch t.rest {
	case 1:
		if !x.Ragged {
			return t, refuse("rows that are no experts'")
		}
	case 2: // rows that have arrived, and the index
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

// program returns the launches that make the index, and a launch behind them.
func (t *through) program(l Launch) *Program {
	return &Program{Scratch: t.scratch, Launches: append(t.launches, l)}
}

// throughFunctions returns the function that makes an index, and more.
func throughFunctions(more []Function) []Function {
	return append([]Function{{"through_set", copyThreads, 0}}, more...)
}
