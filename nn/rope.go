package nn

import (
	"math"

	"github.com/gomoe/gomoe/graph"
	pr "github.com/gomoe/gomoe/primitives"
)

// RoPE is rotary position embedding. Frequencies may depend on the length of the text.
type RoPE struct {
	pr.RoPEOp
	// Original is the length in tokens up to which the frequencies of RoPEOp apply; 0 means no limit.
	Original int
	// Long holds the frequencies for longer texts. If Long is empty, pr.NTKRoPE computes them from Factor and the
	// length of the text.
	Long   []float64
	Factor float64
}

// rotate returns x[B,S,N,D], heads of some of a step's tokens, rotated by positions, which are passed to pr.RoPE.
// all[B,S,..] holds all tokens of the step.
func (p RoPE) rotate(x, positions *graph.Value, st *Step, all *graph.Value) *graph.Value {
	graph.Helper()
	if p.Original == 0 {
		return pr.RoPE(x, positions, p.RoPEOp)
	}
	switch n, each := st.lengths(all); {
	case n <= p.Original:
		return pr.RoPE(x, positions, p.RoPEOp)
	case each == nil:
		return pr.RoPE(x, positions, p.longer(x.Dim(3), n))
	case len(p.Long) == 0:
		return p.rotateGrowing(x, positions, each)
	default:
		longer := pr.Gt(each, pr.Full(x.Tracer(), float64(p.Original), graph.I32, x.Dim(0)))
		return pr.Where(pr.BroadcastInDim(longer, x.Type.Shape, 0), pr.RoPE(x, positions, p.longer(x.Dim(3), 0)), pr.RoPE(x, positions, p.RoPEOp))
	}
}

// longer returns the rotation for a text of n tokens, where n exceeds Original.
func (p RoPE) longer(width, n int) pr.RoPEOp {
	op := p.RoPEOp
	if op.Width != 0 {
		width = op.Width
	}
	if op.Frequencies = p.Long; len(p.Long) == 0 {
		op.Frequencies = pr.NTKRoPE{Factor: p.Factor, Original: float64(p.Original), Length: float64(n)}.RoPE(p.Base, width).Frequencies
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
		return pr.BroadcastInDim(pr.ConvertElementType(v, graph.F64), []int{batch, tokens, heads, half}, dims...)
	}
	if positions == nil {
		positions = pr.Iota(t, graph.I32, 1, batch, tokens)
	}
	base := p.Base
	if base == 0 {
		base = 10000
	}
	length := pr.Max(pr.ConvertElementType(lengths, graph.F64), pr.Full(t, float64(p.Original), graph.F64, batch))
	factor := pr.AddScalar(pr.MulScalar(length, p.Factor/float64(p.Original)), 1-p.Factor)
	raised := pr.AddScalar(pr.MulScalar(pr.Log(factor), float64(width)/float64(width-2)), math.Log(base)) // logarithm of the raised base
	pair := pr.MulScalar(pr.Iota(t, graph.F64, 0, half), -1/float64(half))
	at := []int{0}
	if positions.Rank() == 2 {
		at = []int{0, 1}
	} else {
		at[0] = 1
	}
	angle := pr.Mul(to(positions, at...), pr.Exp(pr.Mul(to(raised, 0), to(pair, 3))))
	magnitude := p.Magnitude
	if magnitude == 0 {
		magnitude = 1
	}
	cos, sin := pr.MulScalar(pr.Cos(angle), magnitude), pr.MulScalar(pr.Sin(angle), magnitude)

	rotated := pr.ConvertElementType(pr.SliceInDim(x, 3, 0, width), graph.F64)
	part := func(i int) *graph.Value { return pr.SliceInDim(rotated, 3, i*half, (i+1)*half) }
	if p.Interleaved {
		pairs := pr.Reshape(rotated, batch, tokens, heads, half, 2)
		part = func(i int) *graph.Value {
			return pr.Reshape(pr.SliceInDim(pairs, 4, i, i+1), batch, tokens, heads, half)
		}
	}
	x1, x2 := part(0), part(1)
	y1, y2 := pr.Sub(pr.Mul(x1, cos), pr.Mul(x2, sin)), pr.Add(pr.Mul(x2, cos), pr.Mul(x1, sin))
	y := pr.Concatenate(3, y1, y2)
	if p.Interleaved {
		pair := []int{batch, tokens, heads, half, 1}
		y = pr.Reshape(pr.Concatenate(4, pr.Reshape(y1, pair...), pr.Reshape(y2, pair...)), batch, tokens, heads, width)
	}
	y = pr.ConvertElementType(y, x.Type.DType)
	if width == shape[3] {
		return y
	}
	return pr.Concatenate(3, y, pr.SliceInDim(x, 3, width, shape[3]))
}
