package primitives

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/work"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// padOp puts, in each dimension, Low copies of a value before its argument, High
// copies behind it and Interior copies between any two neighbours. A negative Low
// or High takes elements away, after Interior has been put in. An empty Interior
// means 0 everywhere.
type padOp struct {
	Low      []int
	High     []int
	Interior []int
}

var _ rearranging = padOp{}

// Pad returns x with low[d] copies of the scalar value before it in dimension
// d, high[d] behind and interior[d] between neighbours; without interior there
// are none between. Negative low and high take elements away.
func Pad(x, value *graph.Value, low, high []int, interior ...int) *graph.Value {
	if !slices.ContainsFunc(interior, func(n int) bool { return n != 0 }) {
		interior = nil
	}
	return graph.Apply1(padOp{slices.Clone(low), slices.Clone(high), slices.Clone(interior)}, x, value)
}

func (padOp) Name() string { return "pad" }

// maxPad bounds each number of copies, so that sizes do not overflow.
const maxPad = 1 << 40

func (p padOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	x, value := in[0], in[1]
	if value.Rank() != 0 || value.DType != x.DType {
		return nil, fmt.Errorf("the padding is %s, want the scalar %s[]", value, x.DType)
	}
	if len(p.Low) != x.Rank() || len(p.High) != x.Rank() || len(p.Interior) != x.Rank() && len(p.Interior) != 0 {
		return nil, fmt.Errorf("%d low, %d high and %d interior for %d dimensions, want one of each per dimension, or no interior",
			len(p.Low), len(p.High), len(p.Interior), x.Rank())
	}
	out := graph.Type{DType: x.DType, Shape: make([]int, x.Rank())}
	for d, n := range x.Shape {
		lo, hi, mid := p.Low[d], p.High[d], p.interior(d)
		if mid < 0 {
			return nil, fmt.Errorf("dimension %d with interior %d, want at least 0", d, mid)
		}
		if max(lo, -lo, hi, -hi, mid) > maxPad || min(lo, hi) < -maxPad || n > 1 && mid > 0 && mid > maxPad/n {
			return nil, fmt.Errorf("dimension %d with low %d, high %d and interior %d, want at most %d", d, lo, hi, mid, maxPad)
		}
		size := lo + hi + n + max(n-1, 0)*mid
		if size < 0 {
			return nil, fmt.Errorf("dimension %d of size %d with low %d, high %d and interior %d is left with size %d, want at least 0", d, n, lo, hi, mid, size)
		}
		out.Shape[d] = size
	}
	if !out.Fits() {
		return nil, errors.New("the result has more bytes than fit in 63 bits")
	}
	return []graph.Type{out}, nil
}

func (p padOp) interior(d int) int {
	if len(p.Interior) == 0 {
		return 0
	}
	return p.Interior[d]
}

// VJP takes the elements of x out of the cotangent. The cotangent of the value is
// the sum of all other elements, which a mask of ones selects.
func (p padOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[0], ct[0]
	zero := zeroOf(g)
	low, high, strides := make([]int, x.Rank()), make([]int, x.Rank()), make([]int, x.Rank())
	for d := range x.Rank() {
		low[d], high[d], strides[d] = -p.Low[d], -p.High[d], p.interior(d)+1
	}
	gx := Pad(g, zero, low, high)
	if len(p.Interior) > 0 {
		gx = Slice(gx, make([]int, x.Rank()), gx.Type.Shape, strides...)
	}
	if isFill(e.In[1]) {
		return []*graph.Value{gx, nil}, nil
	}
	mask := p.mask(e.In[0], g)
	if mask == nil {
		return []*graph.Value{gx, nil}, nil
	}
	return []*graph.Value{gx, ReduceSumUnordered(Mul(g, mask))}, nil
}

// mask returns ones where the result g is padding and zeros where it is x, nil
// if nothing is padded. It is made of one list per padded dimension, so that a
// rank can make its part, also of rows in expert order.
func (p padOp) mask(x, g *graph.Value) *graph.Value {
	var mask *graph.Value
	for d, n := range x.Type.Shape {
		if !p.pads(d) {
			continue
		}
		t := g.Tracer()
		one := t.Apply(graph.FullOp{Value: 1, DType: g.Type.DType})[0]
		line := t.Apply(graph.FullOp{DType: g.Type.DType, Shape: []int{n}})[0]
		line = Pad(line, one, p.Low[d:d+1], p.High[d:d+1], p.interior(d))
		all := BroadcastInDim(line, g.Type.Shape, d)
		if mask == nil {
			mask = all
		} else {
			mask = Max(mask, all)
		}
	}
	return mask
}

// pads reports whether dimension d is changed.
func (p padOp) pads(d int) bool { return p.Low[d] != 0 || p.High[d] != 0 || p.interior(d) != 0 }

func (p padOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(p.Factors(c, false))
}

// Factors lets dimensions be split that are not padded.
func (p padOp) Factors(c *sharding.Context, _ bool) sharding.Factors {
	dims := splitWhere(c.Type(0).Rank(), func(d int) bool { return !p.pads(d) })
	f := sharding.Factors{In: [][]int{dims, nil}, Out: [][]int{dims}, RowWise: true, Linear: sharding.LinearTogether}
	if isZero(c.Eqn.In[1]) {
		f.Linear = sharding.LinearFirst
	}
	return f
}

func (p padOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.Pad, Out: out, In: in, Kernel: moveBoxes(p)})
}

// Boxes fills the result with the value, and then moves the elements of x that appear in it.
func (p padOp) Boxes(a *exec.Args, move boxMove) {
	x, y := a.In[0].Type.Shape, a.Out[0].Type.Shape
	whole := work.RowMajor(a, y)
	move(a, 1, y, 0, whole, 0, exec.Make[int](a, len(y)))
	shape, to, from := exec.Make[int](a, len(x)), work.RowMajor(a, y), work.RowMajor(a, x)
	toAt, fromAt := 0, 0
	for d := range shape {
		// Index i of x goes to low + i·step; keep the indices with 0 <= that < size.
		step, low, size := p.interior(d)+1, p.Low[d], y[d]
		first, end := 0, 0
		if low < 0 {
			first = (-low + step - 1) / step
		}
		if size > low {
			end = min(x[d], (size-low-1)/step+1)
		}
		shape[d] = max(end-first, 0)
		toAt += (low + first*step) * whole[d]
		to[d] = step * whole[d]
		fromAt += first * from[d]
	}
	move(a, 0, shape, toAt, to, fromAt, from)
}

func (padOp) Doc() graph.Doc {
	return graph.Doc{Args: "x t[..], value t[]", Results: "t[..]", Formula: "y[low_0 + i_0·(interior_0 + 1), ..] = x[i_0, ..], elsewhere value",
		Params: "low, high: copies of value before and behind x, per dimension, negative to take elements away; interior: copies between neighbours, none for all 0"}
}
