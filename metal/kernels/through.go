package kernels

import "github.com/gomoe/gomoe/graph"

// through locates the experts' rows read by a product: in their order, or through an index, from
// tokens or from received rows (see lowering.Instr.Indexed).
type through struct {
	x, at   Arg // the rows, or the array they are gathered from, and the index
	indexed bool
	elem    graph.DType
	apart   int // row stride in elements
}

// throughOf locates the rows of an argument, each having `deep` elements.
func throughOf(in *Instr, arg, deep int) (through, error) {
	x, index := in.Args[arg], in.IndexOf(arg)
	t := through{x: In(arg), at: In(arg), elem: x.Type.DType, apart: deep} // a placeholder, which is not read
	if index < 0 {
		if !x.Ragged {
			return t, refuse("rows that are no experts'")
		}
		return t, nil
	}
	if packed := in.plan.Bufs[x.Buf].Packed; packed != nil {
		t.elem = packed[0].DType
	}
	t.indexed, t.at, t.apart = true, In(index), x.Type.Shape[1]*x.Type.DType.Size()/t.elem.Size()
	return t, nil
}
