package nn

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
)

// RoPE is rotary position embedding. Frequencies may depend on the length of the text.
type RoPE struct {
	primitives.RoPEOp
	// Original is the length in tokens up to which the frequencies of RoPEOp apply; 0 means no limit.
	Original int
	// Long holds the frequencies for longer texts. If Long is empty, NTKRoPE computes them from Factor and the
	// length of the text.
	Long   []float64
	Factor float64
}

// rotate returns x[B,S,N,D], heads of some of a step's tokens, rotated by positions, which are passed to primitives.RoPE.
// all[B,S,..] holds all tokens of the step.
func (p RoPE) rotate(x, positions *graph.Value, st *Step, all *graph.Value) *graph.Value {
	graph.Helper()
	if p.Original == 0 {
		return primitives.RoPE(x, positions, p.RoPEOp)
	}
	switch n, each := st.lengths(all); {
	case n <= p.Original:
		return primitives.RoPE(x, positions, p.RoPEOp)
	case each == nil:
		return primitives.RoPE(x, positions, p.longer(x.Dim(3), n))
	case len(p.Long) == 0:
		return p.rotateGrowing(x, positions, each)
	default:
		longer := primitives.Gt(each, primitives.Full(x.Tracer(), float64(p.Original), graph.I32, x.Dim(0)))
		return primitives.Where(primitives.BroadcastInDim(longer, x.Type.Shape, 0), primitives.RoPE(x, positions, p.longer(x.Dim(3), 0)), primitives.RoPE(x, positions, p.RoPEOp))
	}
}

// longer returns the rotation for a text of n tokens, where n exceeds Original.
func (p RoPE) longer(width, n int) primitives.RoPEOp {
	op := p.RoPEOp
	if op.Width != 0 {
		width = op.Width
	}
	if op.Frequencies = p.Long; len(p.Long) == 0 {
		op.Frequencies = NTKRoPE{Factor: p.Factor, Original: float64(p.Original), Length: float64(n)}.RoPE(p.Base, width).Frequencies
	}
	return op
}

// rotateGrowing is rotate for frequencies that change with every token after the first Original tokens. It computes
// angles in f64.
func (p RoPE) rotateGrowing(x, positions, lengths *graph.Value) *graph.Value {
	graph.Helper()
	t, shape := x.Tracer(), x.Type.Shape
	batch, tokens, heads, width := shape[0], shape[1], shape[2], shape[3]
	if p.Width != 0 {
		width = p.Width
	}
	half := width / 2
	to := func(v *graph.Value, dims ...int) *graph.Value {
		return primitives.BroadcastInDim(primitives.ConvertElementType(v, graph.F64), []int{batch, tokens, heads, half}, dims...)
	}
	if positions == nil {
		positions = primitives.Iota(t, graph.I32, 1, batch, tokens)
	}
	base := p.Base
	if base == 0 {
		base = 10000
	}
	length := primitives.Max(primitives.ConvertElementType(lengths, graph.F64), primitives.Full(t, float64(p.Original), graph.F64, batch))
	factor := primitives.AddScalar(primitives.MulScalar(length, p.Factor/float64(p.Original)), 1-p.Factor)
	raised := primitives.AddScalar(primitives.MulScalar(primitives.Log(factor), float64(width)/float64(width-2)), math.Log(base)) // logarithm of the raised base
	pair := primitives.MulScalar(primitives.Iota(t, graph.F64, 0, half), -1/float64(half))
	at := []int{0}
	if positions.Rank() == 2 {
		at = []int{0, 1}
	} else {
		at[0] = 1
	}
	angle := primitives.Mul(to(positions, at...), primitives.Exp(primitives.Mul(to(raised, 0), to(pair, 3))))
	magnitude := p.Magnitude
	if magnitude == 0 {
		magnitude = 1
	}
	cos, sin := primitives.MulScalar(primitives.Cos(angle), magnitude), primitives.MulScalar(primitives.Sin(angle), magnitude)

	rotated := primitives.ConvertElementType(primitives.SliceInDim(x, 3, 0, width), graph.F64)
	part := func(i int) *graph.Value { return primitives.SliceInDim(rotated, 3, i*half, (i+1)*half) }
	if p.Interleaved {
		pairs := primitives.Reshape(rotated, batch, tokens, heads, half, 2)
		part = func(i int) *graph.Value {
			return primitives.Reshape(primitives.SliceInDim(pairs, 4, i, i+1), batch, tokens, heads, half)
		}
	}
	x1, x2 := part(0), part(1)
	y1, y2 := primitives.Sub(primitives.Mul(x1, cos), primitives.Mul(x2, sin)), primitives.Add(primitives.Mul(x2, cos), primitives.Mul(x1, sin))
	y := primitives.Concatenate(3, y1, y2)
	if p.Interleaved {
		pair := []int{batch, tokens, heads, half, 1}
		y = primitives.Reshape(primitives.Concatenate(4, primitives.Reshape(y1, pair...), primitives.Reshape(y2, pair...)), batch, tokens, heads, width)
	}
	y = primitives.ConvertElementType(y, x.Type.DType)
	if width == shape[3] {
		return y
	}
	return primitives.Concatenate(3, y, primitives.SliceInDim(x, 3, width, shape[3]))
}
