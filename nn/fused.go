package nn

import (
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// Fused combines several linear layers with the same input, such as queries, keys and values, into one product. Its
// parameter weight [Blocks,ΣOut/Blocks,in] interleaves the segments: block i holds part i of every segment's rows,
// so that the mesh axis tp shards all segments alike, with a whole number of blocks per rank. Bias adds the
// parameter bias [Blocks,ΣOut/Blocks].
type Fused struct {
	Out    []int // rows of each segment, multiples of Blocks
	Blocks int   // a multiple of the number of tp ranks; 0 means 1
	Bias   bool
}

// Apply returns the product of x[..,in] with each segment, [..,Out[i]].
func (f Fused) Apply(s *Scope, x *graph.Value) []*graph.Value {
	graph.Helper()
	n, all := max(f.Blocks, 1), 0
	for _, out := range f.Out {
		if all += out; out < 1 || out%n != 0 {
			graph.Fail("fused: segments of %v rows in %d blocks, want blocks of equal size", f.Out, n)
		}
	}
	in, last := x.Dim(-1), x.Rank()-1
	w := s.Param("weight", "weight", Init{Std: 1 / math.Sqrt(float64(in))}, []string{"tp"}, n, all/n, in)
	y := primitives.MatMulTransposedAs(x.Type.DType, x, primitives.Reshape(w, all, in))
	if f.Bias {
		b := primitives.ConvertElementType(s.Param("bias", "bias", Init{}, []string{"tp"}, n, all/n), y.Type.DType)
		y = primitives.Add(y, primitives.BroadcastInDim(primitives.Reshape(b, all), y.Type.Shape, last))
	}
	lead := x.Type.Shape[:last]
	y = primitives.Reshape(y, slices.Concat(lead, []int{n, all / n})...)
	parts, at := make([]*graph.Value, len(f.Out)), 0
	for i, out := range f.Out {
		parts[i] = primitives.Reshape(primitives.SliceInDim(y, last+1, at, at+out/n), slices.Concat(lead, []int{out})...)
		at += out / n
	}
	return parts
}
