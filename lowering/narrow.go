package lowering

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// narrows reports whether sums of arrays of type t are computed in a smaller type (see
// Options.Sums). Scalars, such as losses and norms, are not.
func (e *Emitter) narrows(t graph.Type) bool {
	return e.sums != graph.NoDType && t.DType == graph.F32 && t.Rank() > 0
}

// convert emits the conversion of in, between f32 and bf16 or f16, to the type of out. To the
// smaller types it rounds to nearest, ties to even.
func (e *Emitter) convert(op ops.Op, out, in Buf) {
	e.emit(Instr{Op: op, Zones: -1, Host: Host{Flat: true, Kernel: func(a *exec.Args) error {
		exec.Share(a, a.Out[0].Type.Len(), 1<<17, converted{a})
		return nil
	}}, InPlace: true}, []Buf{out}, []Buf{in})
}

type converted struct{ *exec.Args }

func (c *converted) Piece(lo, hi int) {
	to, from := c.Out[0], c.In[0]
	switch [2]graph.DType{from.Type.DType, to.Type.DType} {
	case [2]graph.DType{graph.F32, graph.BF16}:
		array.NarrowBrain(array.Data[array.Brain](to)[lo:hi], array.Data[float32](from)[lo:hi])
	case [2]graph.DType{graph.F32, graph.F16}:
		array.NarrowHalf(array.Data[array.Half](to)[lo:hi], array.Data[float32](from)[lo:hi])
	case [2]graph.DType{graph.BF16, graph.F32}:
		array.WidenBrain(array.Data[float32](to)[lo:hi], array.Data[array.Brain](from)[lo:hi])
	case [2]graph.DType{graph.F16, graph.F32}:
		array.WidenHalf(array.Data[float32](to)[lo:hi], array.Data[array.Half](from)[lo:hi])
	}
}
