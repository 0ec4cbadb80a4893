package primitives

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// AdamWOp updates a parameter and its two moments in one pass.
type AdamWOp struct {
	// B1 and B2 are the decays of the moments, at least 0 and below 1. Eps, above 0, is added
	// to the root of the second moment.
	B1, B2, Eps float64
	// WeightDecay times the parameter is added to the step.
	WeightDecay float64
}

var _ primitive = AdamWOp{}

// AdamW returns the parameter and its moments after an update. The parameter p,
// its moments m and v and its gradient g have the same float type and shape. lr f32[]
// is the learning rate, step i32[] the number of the update, counting from 1, and
// scale f32[] a factor of the gradient, such as the factor when clipping by norm:
//
//	m' = B1 m + (1-B1) scale g,   v' = B2 v + (1-B2) (scale g)²
//	p' = p - lr (m'/(1-B1ˢᵗᵉᵖ) / (√(v'/(1-B2ˢᵗᵉᵖ)) + Eps) + WeightDecay p)
//
// All of this is computed in f64 and rounded once. A step below 1 stops the run. p, m
// and v may be donated, updating them in place. AdamW has no derivative.
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization" (2019).
func AdamW(p, m, v, g, lr, step, scale *graph.Value, a AdamWOp) (p2, m2, v2 *graph.Value) {
	r := graph.Apply(a, p, m, v, g, lr, step, scale)
	return r[0], r[1], r[2]
}

func (AdamWOp) Name() string { return "adamw" }

func (s AdamWOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 7); err != nil {
		return nil, err
	}
	if _, err := inferAlike(in[:4], 4); err != nil {
		return nil, fmt.Errorf("p, m, v and g: %w", err)
	}
	for i, want := range []graph.Type{graph.T(graph.F32), graph.T(graph.I32), graph.T(graph.F32)} {
		if !in[4+i].Equal(want) {
			return nil, fmt.Errorf("%s is %s, want %s", [...]string{"lr", "step", "scale"}[i], in[4+i], want)
		}
	}
	for i, b := range [...]float64{s.B1, s.B2} {
		if !(b >= 0 && b < 1) {
			return nil, fmt.Errorf("b%d=%v, want a number from 0 to below 1", i+1, b)
		}
	}
	if math.IsNaN(s.WeightDecay) || math.IsInf(s.WeightDecay, 0) {
		return nil, fmt.Errorf("weight_decay=%v, want a finite number", s.WeightDecay)
	}
	if s.Eps == 0 {
		return nil, errors.New("eps=0 makes 0/0 of a gradient that is 0; want a number above 0, such as eps=1e-08")
	}
	return in[:3], epsilon(s.Eps)
}

func (AdamWOp) VJP(*graph.Eqn, []*graph.Value) ([]*graph.Value, error) {
	return nil, errors.New("an optimizer's update has no derivative; put stop_gradient on its results, or take the gradient before it")
}

// Shard lets the parameter and its moments be split in any way; scalars are whole.
func (AdamWOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Elementwise(c.Type(0), 4, 3, sharding.NotLinear)
	f.In = append(f.In, nil, nil, nil)
	return c.Place(f)
}

func (s AdamWOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.AdamW, Out: out, In: in, Elementwise: true, Kernel: inFloat(adamWKernel[float32](s), adamWKernel[float64](s))})
}

func adamWKernel[T float](s AdamWOp) exec.Kernel {
	return func(a *exec.Args) error {
		p, m, v, g := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.In[3])
		p2, m2, v2 := data[T](a.Out[0]), data[T](a.Out[1]), data[T](a.Out[2])
		lr, step, scale := float64(data[float32](a.In[4])[0]), data[int32](a.In[5])[0], float64(data[float32](a.In[6])[0])
		if step < 1 {
			return fmt.Errorf("step %d, want the number of this update, the first being 1", step)
		}
		c1, c2 := 1-math.Pow(s.B1, float64(step)), 1-math.Pow(s.B2, float64(step))
		u := vector.AdamW{B1: s.B1, B2: s.B2, C1: c1, C2: c2, Scale: scale, LR: lr, Eps: s.Eps, Decay: s.WeightDecay}
		exec.Share(a, len(p2), dear, adamWElements[T]{u, p2, m2, v2, p, m, v, g})
		return nil
	}
}

type adamWElements[T float] struct {
	vector.AdamW
	p2, m2, v2, p, m, v, g []T
}

func (w *adamWElements[T]) Piece(lo, hi int) {
	vector.AdamWStep(w.AdamW, w.p2[lo:hi], w.m2[lo:hi], w.v2[lo:hi], w.p[lo:hi], w.m[lo:hi], w.v[lo:hi], w.g[lo:hi])
}

func (AdamWOp) Doc() graph.Doc {
	return graph.Doc{Args: "p f[..], m f[..], v f[..], g f[..], lr f32[], step i32[], scale f32[]", Results: "p' f[..], m' f[..], v' f[..]",
		Formula: "m' = b1 m + (1-b1) scale g, v' = b2 v + (1-b2)(scale g)², p' = p - lr (m'/(1-b1^step) / (√(v'/(1-b2^step)) + eps) + weight_decay p)",
		Params:  "b1, b2: from 0 to below 1; eps: number ≥ 0; weight_decay: number",
		Notes:   "Has no derivative. A step below 1 stops the run. Results may be written over donated p, m and v."}
}
