package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// RoPEOp rotates pairs of elements of each head by an angle that grows with the
// token's position; see RoPE.
type RoPEOp struct {
	// Base is θ, about the ratio of the longest to the shortest period; 0 means 10000.
	Base float64
	// Offset is the position of the first token.
	Offset int
	// Interleaved pairs elements 2i and 2i+1 instead of i and i + D/2.
	Interleaved bool
	// Inverse rotates the other way. This undoes the rotation and is also its transpose.
	Inverse bool
}

var _ primitive = RoPEOp{}

// RoPE returns x[B,S,N,D], of a float type and with D even, in which pair i < D/2 of
// the token at position s is rotated by the angle (s + Offset) · Base^(-2i/D), in f64:
//
//	y₁ = x₁ cos - x₂ sin,   y₂ = x₂ cos + x₁ sin
//
// Pair i is the elements i and i + D/2, as in GPT-NeoX and Llama checkpoints in their
// usual form. Source: Su and others, "RoFormer" (2021).
func RoPE(x *graph.Value, p RoPEOp) *graph.Value { return graph.Apply1(p, x) }

func (RoPEOp) Name() string { return "rope" }

func (p RoPEOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if err := floating(x); err != nil {
		return nil, err
	}
	if x.Rank() != 4 || x.Shape[3]%2 != 0 {
		return nil, fmt.Errorf("%s, want [B,S,N,D] with D even", x)
	}
	if p.Base != 0 && !(p.Base > 0 && p.Base <= math.MaxFloat64) {
		return nil, fmt.Errorf("base=%v, want a positive finite number, or 0 for 10000", p.Base)
	}
	return in, nil
}

func (p RoPEOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	p.Inverse = !p.Inverse
	return []*graph.Value{graph.Apply1(p, ct[0])}, nil
}

// Shard splits the sequence too: each rank knows the positions of its part.
func (p RoPEOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	dims := rowDims(4, 3)
	return c.Place(sharding.Factors{In: [][]int{dims}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether})
}

func (p RoPEOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	t := e.Eqn.Out[0].Type
	angles, err := p.angles(e, out[0].Spec.At(1), t.Shape[1], t.Shape[3]/2)
	if err != nil {
		return err
	}
	return e.Emit(lowering.KernelSpec{Name: "rope", Out: out, In: []lowering.Buf{in[0], angles}, Kernel: ofFloat(out[0].Type.DType, ropeKernel[float32](p), ropeKernel[float64](p))})
}

// ropeKey identifies a table of angles.
type ropeKey struct {
	base         float64
	offset, s, d int
	seq          string
}

// angles returns f64[s,2,half], split over seq: cosine and sine of pair i at each of the s
// positions. Equal rotations of a program share the table.
func (p RoPEOp) angles(e *lowering.Emitter, seq []string, s, half int) (lowering.Buf, error) {
	return e.Memo(ropeKey{p.base(), p.Offset, s, half, fmt.Sprint(seq)}, func() (lowering.Buf, error) {
		out := e.Placed(graph.T(graph.F64, s, 2, half), sharding.Spec{Dims: [][]string{seq, nil, nil}})
		return out, e.Emit(lowering.KernelSpec{Name: "rope_angles", Out: []lowering.Buf{out}, In: nil, Kernel: func(a *exec.Args) error {
			table := data[float64](a.Out[0])
			from, s := a.Part(seq, s)
			for i := range half {
				freq := math.Pow(p.base(), -float64(i)/float64(half))
				for t := range s {
					sin, cos := math.Sincos(float64(p.Offset+from+t) * freq)
					table[2*t*half+i], table[(2*t+1)*half+i] = cos, sin
				}
			}
			return nil
		}})
	})
}

func (p RoPEOp) base() float64 {
	if p.Base == 0 {
		return 10000
	}
	return p.Base
}

func ropeKernel[T float](p RoPEOp) exec.Kernel {
	sign := 1.0
	if p.Inverse {
		sign = -1
	}
	return func(a *exec.Args) error {
		x, angles, y := data[T](a.In[0]), data[float64](a.In[1]), data[T](a.Out[0])
		shape := a.In[0].Type.Shape
		s, n, d := shape[1], shape[2], shape[3]
		exec.Share(a, shape[0]*s, rowGrain(n*d), turned[T]{y, x, angles, s, n, d, p.Interleaved, sign})
		return nil
	}
}

// turned is the rotation of tokens, each with n heads of d elements.
type turned[T float] struct {
	y, x        []T
	angles      []float64
	s, n, d     int
	interleaved bool
	sign        float64
}

func (w *turned[T]) Piece(lo, hi int) {
	n, d := w.n, w.d
	for r := lo; r < hi; r++ {
		cos, sin := w.angles[r%w.s*d:][:d/2], w.angles[r%w.s*d+d/2:][:d/2]
		from, to := w.x[r*n*d:][:n*d], w.y[r*n*d:][:n*d]
		if !w.interleaved && d > 0 && n > 0 {
			norm.Turn(to, to[d/2:], from, from[d/2:], d, n, cos, sin, w.sign)
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
	return graph.Doc{Args: "x f[B,S,N,D]", Results: "f[B,S,N,D]", Formula: "(y₁, y₂) = (x₁ cos - x₂ sin, x₂ cos + x₁ sin), angle (s + offset) · base^(-2i/D)",
		Params: "base: 0 for 10000; offset: position of the first token; interleaved: pairs 2i, 2i+1 instead of i, i + D/2; inverse: the opposite angle",
		Notes:  "Angles are computed in f64. Where the sequence is split, positions are those in the whole."}
}
