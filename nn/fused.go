package nn

import (
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// Fused is several linear layers of the same rows, such as queries, keys and values, as one product. Its parameter weight
// [Blocks,ΣOut/Blocks,in] has in block i part i of every segment's rows, so that the mesh axis tp splits all segments alike: it
// has some blocks on each rank. With Bias it has bias [Blocks,ΣOut/Blocks].
type Fused struct {
	Out    []int // the rows of each segment, multiples of Blocks
	Blocks int   // a multiple of the ranks of tp; 0 means 1
	Bias   bool
}

// Apply returns x[..,in] times each segment, [..,Out[i]].
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
	y := pr.MatMulTransposedAs(x.Type.DType, x, pr.Reshape(w, all, in))
	if f.Bias {
		b := pr.ConvertElementType(s.Param("bias", "bias", Init{}, []string{"tp"}, n, all/n), y.Type.DType)
		y = pr.Add(y, pr.BroadcastInDim(pr.Reshape(b, all), y.Type.Shape, last))
	}
	lead := x.Type.Shape[:last]
	y = pr.Reshape(y, slices.Concat(lead, []int{n, all / n})...)
	parts, at := make([]*graph.Value, len(f.Out)), 0
	for i, out := range f.Out {
		parts[i] = pr.Reshape(pr.SliceInDim(y, last+1, at, at+out/n), slices.Concat(lead, []int{out})...)
		at += out / n
	}
	return parts
}
