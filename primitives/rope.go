package primitives

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// RoPEOp rotates pairs of elements of each head by an angle growing with the token's
// position; see RoPE. Types of package nn such as YaRN return one for a model's scaling.
type RoPEOp struct {
	// Base is θ, about the ratio of the longest to the shortest period; 0 means 10000.
	Base float64
	// Width is the number of rotated elements of a head, counting from the first; 0 means all.
	Width int
	// Frequencies are the angles per position of the pairs, Width/2 of them. If empty, pair
	// i has Base^(-2i/Width).
	Frequencies []float64
	// Magnitude multiplies the rotated elements; 0 means 1.
	Magnitude float64
	// Interleaved pairs elements 2i and 2i+1 instead of i and i + Width/2.
	Interleaved bool
	// Inverse rotates in the opposite direction, which is the transpose. With Magnitude 1 it
	// undoes the rotation.
	Inverse bool
}

var _ primitive = RoPEOp{}

// RoPE returns x[B,S,N,D], of a float type and with D even, rotating pair i of a token by
// the angle position · Frequencies[i], computed in f64:
//
//	y₁ = m (x₁ cos - x₂ sin),   y₂ = m (x₂ cos + x₁ sin),   m = Magnitude
//
// Pair i consists of elements i and i + Width/2, as in GPT-NeoX and Llama checkpoints in
// their usual form. Elements from Width on are unchanged. positions are i32[B,S], or i32[S] if
// shared by all sequences; nil stands for 0 to S-1. Source: Su and others, "RoFormer" (2021).
func RoPE(x, positions *graph.Value, p RoPEOp) *graph.Value {
	graph.Helper()
	if positions == nil {
		if x.Rank() != 4 {
			graph.Fail("rope: x is %s, want [B,S,N,D]", x.Type)
		}
		positions = Iota(x.Tracer(), graph.I32, 0, x.Dim(1))
	}
	return graph.Apply1(p, x, positions)
}

func (RoPEOp) Name() string { return "rope" }

func (p RoPEOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x, positions := in[0], in[1]
	if err := floating(x); err != nil {
		return nil, err
	}
	if x.Rank() != 4 || x.Shape[3]%2 != 0 {
		return nil, fmt.Errorf("%s, want [B,S,N,D] with D even", x)
	}
	each, all := graph.T(graph.I32, x.Shape[1]), graph.T(graph.I32, x.Shape[0], x.Shape[1])
	if !positions.Equal(each) && !positions.Equal(all) {
		return nil, fmt.Errorf("positions are %s for %s, want %s or %s", positions, x, each, all)
	}
	if p.Width < 0 || p.Width > x.Shape[3] || p.Width%2 != 0 {
		return nil, fmt.Errorf("width=%d for heads of %d elements, want an even number up to that, or 0 for all", p.Width, x.Shape[3])
	}
	if p.Base != 0 && !(p.Base > 0 && p.Base <= math.MaxFloat64) {
		return nil, fmt.Errorf("base=%v, want a positive finite number, or 0 for 10000", p.Base)
	}
	if n := p.width(x) / 2; len(p.Frequencies) != 0 && len(p.Frequencies) != n {
		return nil, fmt.Errorf("%d frequencies for a width of %d, want %d, one for each pair", len(p.Frequencies), 2*n, n)
	}
	for i, f := range p.Frequencies {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("frequency %d is %v, want finite numbers; check the parameters of the scaling", i, f)
		}
	}
	if math.IsNaN(p.Magnitude) || math.IsInf(p.Magnitude, 0) {
		return nil, fmt.Errorf("magnitude=%v, want a finite number, or 0 for 1", p.Magnitude)
	}
	return in[:1], nil
}

// width returns the number of rotated elements of a head of x.
func (p RoPEOp) width(x graph.Type) int {
	if p.Width == 0 {
		return x.Shape[3]
	}
	return p.Width
}

func (p RoPEOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	p.Inverse = !p.Inverse
	return []*graph.Value{graph.Apply1(p, ct[0], e.In[1]), nil}, nil
}

// Shard splits the sequence too, because positions are values. With positions for each sequence,
// the sequences must not be ragged.
func (p RoPEOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	dims, positions := rowDims(4, 3), []int{1}
	if c.Type(1).Rank() == 2 {
		positions = []int{0, 1}
	}
	return c.Place(sharding.Factors{In: [][]int{dims, positions}, Out: [][]int{dims}, RowWise: len(positions) == 1, Linear: sharding.LinearFirst})
}

func (p RoPEOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	angles, err := p.angles(e, in[1], p.width(out[0].Type)/2)
	if err != nil {
		return err
	}
	return e.Emit(lowering.KernelSpec{Op: ops.Rope, Out: out, In: []lowering.Buf{in[0], angles}, Kernel: ofFloat(out[0].Type.DType, ropeKernel[float32](p), ropeKernel[float64](p))})
}

// ropeKey identifies a table of angles.
type ropeKey struct {
	positions   int // the buffer
	frequencies string
	magnitude   float64
}

// angles returns f64[..,2,half], placed like the positions: cosine and sine of each pair at
// each position, times the magnitude. A program shares the table between equal rotations.
func (p RoPEOp) angles(e *lowering.Emitter, positions lowering.Buf, half int) (lowering.Buf, error) {
	frequencies := p.PairFrequencies(2 * half)
	magnitude := p.Magnitude
	if magnitude == 0 {
		magnitude = 1
	}
	return e.Memo(ropeKey{positions.ID, fmt.Sprint(frequencies), magnitude}, func() (lowering.Buf, error) {
		t, s := e.Eqn.In[1].Type, positions.Spec
		out := e.Placed(graph.T(graph.F64, append(slices.Clone(t.Shape), 2, half)...), sharding.Spec{Dims: append(slices.Clone(s.Dims), nil, nil)})
		return out, e.Emit(lowering.KernelSpec{Op: ops.RopeAngles, Out: []lowering.Buf{out}, In: []lowering.Buf{positions}, Kernel: func(a *exec.Args) error {
			table := data[float64](a.Out[0])
			for t, position := range data[int32](a.In[0]) {
				row := table[2*t*half:][:2*half]
				for i, f := range frequencies {
					sin, cos := math.Sincos(float64(position) * f)
					row[i], row[half+i] = magnitude*cos, magnitude*sin
				}
			}
			return nil
		}})
	})
}

// PairFrequencies returns the angles per position of the pairs of `width` elements: Frequencies or, if empty,
// Base^(-2i/width) for pair i. Base 0 means 10000.
func (p RoPEOp) PairFrequencies(width int) []float64 {
	if len(p.Frequencies) > 0 {
		return p.Frequencies
	}
	base := p.Base
	if base == 0 {
		base = 10000
	}
	f := make([]float64, max(width, 0)/2)
	for i := range f {
		f[i] = math.Pow(base, -float64(i)/float64(len(f)))
	}
	return f
}

func ropeKernel[T float](p RoPEOp) exec.Kernel {
	sign := 1.0
	if p.Inverse {
		sign = -1
	}
	return func(a *exec.Args) error {
		x, angles, y := data[T](a.In[0]), data[float64](a.In[1]), data[T](a.Out[0])
		shape := a.In[0].Type.Shape
		n, d := shape[2], shape[3]
		rows := shape[1] // of angles: of one sequence for all, or of each
		if a.In[1].Type.Rank() == 4 {
			rows *= shape[0]
		}
		exec.Share(a, shape[0]*shape[1], rowGrain(n*d), pairRotation[T]{y, x, angles, max(rows, 1), n, d, p.width(a.In[0].Type), p.Interleaved, sign})
		return nil
	}
}

// pairRotation is the rotation of tokens, each with n heads of d elements.
type pairRotation[T float] struct {
	y, x        []T
	angles      []float64
	s, n, d     int // s is the number of rows of angles; token t uses row t mod s
	width       int
	interleaved bool
	sign        float64
}

func (w *pairRotation[T]) Piece(lo, hi int) {
	n, d, width := w.n, w.d, w.width
	for r := lo; r < hi; r++ {
		cos, sin := w.angles[r%w.s*width:][:width/2], w.angles[r%w.s*width+width/2:][:width/2]
		from, to := w.x[r*n*d:][:n*d], w.y[r*n*d:][:n*d]
		if width < d {
			for h := 0; h < len(from); h += d {
				copy(to[h+width:h+d], from[h+width:h+d])
			}
		}
		if !w.interleaved && width > 0 && n > 0 {
			norm.Turn(to, to[width/2:], from, from[width/2:], d, n, cos, sin, w.sign)
			continue
		}
		for h := 0; h < len(from); h += d {
			for i, c := range cos {
				at, s := h+2*i, w.sign*sin[i]
				x1, x2 := float64(from[at]), float64(from[at+1])
				to[at] = T(float64(x1*c) - float64(x2*s))
				to[at+1] = T(float64(x2*c) + float64(x1*s))
			}
		}
	}
}

func (RoPEOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[B,S,N,D], positions i32[B,S] or i32[S]", Results: "f[B,S,N,D]", Formula: "(y₁, y₂) = m (x₁ cos - x₂ sin, x₂ cos + x₁ sin), angle position · frequencies[i]",
		Params: "base: 0 for 10000; width: elements of a head that are rotated, 0 for all; frequencies: angle per position of each pair, none for base^(-2i/width); magnitude: m, 0 for 1; interleaved: pairs 2i, 2i+1 instead of i, i + width/2; inverse: the opposite angle",
		Notes:  "Angles are computed in f64. Elements from width on are x's."}
}
