package kernels

import (
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// through locates the experts' rows read by a product: in their order, or through an index, from
// tokens or from received rows (see primitives.Joins).
type through struct {
	x, at   Arg // the rows, or the array they are gathered from, and the index
	indexed bool
	elem    graph.DType
	apart   int // row stride in elements
	rest    int // the first argument following the rows
}

// gathered reports whether an instruction reads experts' rows through an index.
func gathered(in *Instr) bool { return in.op().Has(ops.Indexed | ops.Right) }

// shifted returns how many arguments more there are because rows are read through an index.
func shifted(in *Instr) int {
	if gathered(in) {
		return 1
	}
	return 0
}

// throughOf locates the rows of an instruction's first arguments, each having `deep` elements.
func throughOf(in *Instr, deep int) (through, error) {
	x := in.Args[0]
	t := through{x: In(0), at: In(0), elem: x.Type.DType, apart: deep, rest: 1 + shifted(in)} // a placeholder, which is not read
	switch packed := in.plan.Bufs[x.Buf].Packed; {
	case t.rest == 1:
		if !x.Ragged {
			return t, refuse("rows that are no experts'")
		}
		return t, nil
	case packed != nil:
		t.elem = packed[0].DType
	}
	t.indexed, t.at, t.apart = true, In(1), x.Type.Shape[1]*x.Type.DType.Size()/t.elem.Size()
	return t, nil
}
