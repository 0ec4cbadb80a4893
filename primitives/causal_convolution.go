package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/depthwise"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// causalConvolutionOp is a causal depthwise convolution; see CausalConvolution.
type causalConvolutionOp struct {
	Silu bool // apply SiLU
	// Bias and Lengths are set if these arguments follow x, w and state, in this order.
	Bias, Lengths bool
}

var _ primitive = causalConvolutionOp{}

// mostTaps is the largest number of weights per channel.
const mostTaps = 8

// ConvolutionParams are the options of CausalConvolution.
type ConvolutionParams struct {
	// Bias [C] is added to every row. nil means zeros.
	Bias *graph.Value
	// State [B,k-1,C] holds the rows of x before the first one. nil means zeros.
	State *graph.Value
	// Lengths i32[B] are the numbers of rows of the sequences; nil means T. Later rows of a sequence are not read,
	// and have y 0.
	Lengths *graph.Value
	// SiLU applies SiLU to the sums.
	SiLU bool
}

// CausalConvolution returns, for x[B,T,C] and the weights w[C,k] of each channel, with k from 1 to 8,
//
//	y[b,t,c] = bias[c] + Σ_j w[c,j] s[b,t+j,c]
//
// or SiLU of it, where s are the k-1 rows of State followed by the rows of x. Row t of y thus depends on row t of x
// and on the k-1 rows before it. state [B,k-1,C] are the last k-1 rows of s within each length. Passing it as the
// State of the following rows gives the same bits as one sequence. With k=1 it has no rows. A donated state is updated
// in place. All arguments have one float type. Terms are added in the order of j, in f32 for bf16 and f16.
func CausalConvolution(x, w *graph.Value, p ConvolutionParams) (y, state *graph.Value) {
	graph.Helper()
	state = p.State
	if state == nil && x != nil && w != nil && x.Rank() == 3 && w.Rank() == 2 && w.Dim(1) > 0 {
		state = Full(x.Tracer(), 0, x.Type.DType, x.Dim(0), w.Dim(1)-1, x.Dim(2))
	}
	op, args := causalConvolutionOp{Silu: p.SiLU, Bias: p.Bias != nil, Lengths: p.Lengths != nil}, []*graph.Value{x, w, state}
	if op.Bias {
		args = append(args, p.Bias)
	}
	if op.Lengths {
		args = append(args, p.Lengths)
	}
	r := graph.Apply(op, args...)
	return r[0], r[1]
}

func (causalConvolutionOp) Name() string { return "causal_convolution" }

// optional returns the indices of the optional arguments after the first `first`, 0 for none, and the number of all.
func (p causalConvolutionOp) optional(first int) (bias, lengths, count int) {
	return optionalArgs(first, p.Bias, p.Lengths)
}

func (p causalConvolutionOp) Infer(in []graph.Type) ([]graph.Type, error) {
	bias, lengths, count := p.optional(3)
	if err := arity(in, count); err != nil {
		return nil, err
	}
	x, w, state := in[0], in[1], in[2]
	if err := floating(x); err != nil {
		return nil, fmt.Errorf("x: %w", err)
	}
	if x.Rank() != 3 || w.Rank() != 2 {
		return nil, fmt.Errorf("x is %s and w is %s, want x[B,T,C] and w[C,k]", x, w)
	}
	b, c, k := x.Shape[0], x.Shape[2], w.Shape[1]
	if want := graph.T(x.DType, c, k); !w.Equal(want) {
		return nil, fmt.Errorf("w is %s for x %s, want %s", w, x, want)
	}
	if k < 1 || k > mostTaps {
		return nil, fmt.Errorf("w is %s, with %d weights per channel, want 1 to %d", w, k, mostTaps)
	}
	if want := graph.T(x.DType, b, k-1, c); !state.Equal(want) {
		return nil, fmt.Errorf("state is %s for x %s and w %s, want %s", state, x, w, want)
	}
	if want := graph.T(x.DType, c); p.Bias && !in[bias].Equal(want) {
		return nil, fmt.Errorf("bias is %s for x %s, want %s", in[bias], x, want)
	}
	if want := graph.T(graph.I32, b); p.Lengths && !in[lengths].Equal(want) {
		return nil, fmt.Errorf("lengths are %s for x %s, want %s", in[lengths], x, want)
	}
	return []graph.Type{x, state}, nil
}

// VJP adds the gradients of w and of the bias over the sequences of the batch.
func (p causalConvolutionOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	in := append(append([]*graph.Value{}, e.In[:3]...), vjp.Instantiate(ct[0], e.Out[0]), vjp.Instantiate(ct[1], e.Out[1]))
	grads := graph.Apply(causalConvolutionGradOp(p), append(in, e.In[3:]...)...)
	for _, i := range []int{1, 3}[:len(grads)-2] {
		grads[i] = ConvertElementType(ReduceSumUnordered(grads[i], 0), e.In[i].Type.DType)
	}
	if p.Lengths {
		grads = append(grads, nil)
	}
	return grads, nil
}

// factors returns the factors: batch 0 and channels 1 may be split.
func (p causalConvolutionOp) factors(cotangents bool) sharding.Factors {
	rows, weights := []int{0, sharding.Whole, 1}, []int{1, sharding.Whole}
	f := sharding.Factors{In: [][]int{rows, weights, rows}, Out: [][]int{rows, rows}}
	if cotangents {
		f.In, f.Out = append(f.In, rows, rows), [][]int{rows, {0, 1, sharding.Whole}, rows}
	}
	if p.Bias {
		if f.In = append(f.In, []int{1}); cotangents {
			f.Out = append(f.Out, []int{0, 1})
		}
	}
	if p.Lengths {
		f.In = append(f.In, []int{0})
	}
	return f
}

func (p causalConvolutionOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(p.factors(false))
}

func (p causalConvolutionOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(convolutionKernel[float32](p, in, e.Eqn), convolutionKernel[float64](p, in, e.Eqn))
	return e.Emit(lowering.KernelSpec{Op: ops.CausalConvolution, Out: out, In: in, Over: [][2]int{{1, 2}}, Dry: k, Kernel: k})
}

func (causalConvolutionOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[B,T,C], w f[C,k], state f[B,k-1,C], and where their parameters say so bias f[C], lengths i32[B]",
		Results: "y f[B,T,C], last f[B,k-1,C]",
		Formula: "y[t] = bias + Σ w[j] s[t+j] for j from 0 to k-1, or silu of it, with s the rows of state followed by those of x; last = rows T to T+k-2 of s",
		Params:  "silu: y is silu of the sum; bias: is added to the sum; lengths: rows of each sequence; later rows are not read and have y 0, and last ends there",
		Notes:   "k is 1 to 8. A sequence cut anywhere, with last as the state of its second part, has the same bits. With k=1 the state has no rows. Terms are added in the order of j, in f32 for bf16 and f16."}
}

// convolutionArgs are the arguments on one rank: b sequences of t rows of c channels.
type convolutionArgs[T float] struct {
	p                 causalConvolutionOp
	b, t, c, k        int
	lengths           lengths
	x, w, state, bias []T
}

// newConvolutionArgs returns the arguments of a kernel with optional arguments after the first `first`. A length
// above the number of rows is an error.
func newConvolutionArgs[T float](p causalConvolutionOp, a *exec.Args, first int, placed []lowering.Buf, eqn *graph.Eqn) (convolutionArgs[T], error) {
	s := a.In[0].Type.Shape
	x := convolutionArgs[T]{p: p, b: s[0], t: s[1], c: s[2], k: a.In[1].Type.Shape[1], x: data[T](a.In[0]), w: data[T](a.In[1]), state: data[T](a.In[2])}
	bias, lengths, _ := p.optional(first)
	if p.Bias {
		x.bias = data[T](a.In[bias])
	}
	var err error
	if p.Lengths {
		x.lengths, err = lengthsOf(a, lengths, x.t, placed, eqn)
	}
	return x, err
}

// rows returns the channels from c on of the rows of sequence b.
func (x *convolutionArgs[T]) rows(state, sequence []T, b, c int) depthwise.Rows[T] {
	return depthwise.Rows[T]{State: x.channels(state, b, x.k-1, c), Sequence: x.channels(sequence, b, x.t, c)}
}

// channels returns the channels from c on of the rows of sequence b of an array [B,rows,C].
func (x *convolutionArgs[T]) channels(of []T, b, rows, c int) kernel.Rows[T] {
	return kernel.Rows[T]{X: kernel.From(of, b*rows*x.c+c), Stride: x.c}
}

// block returns n channels from c on. Their weights are copied to room.
func (x *convolutionArgs[T]) block(c, n int, room []T) depthwise.Block[T] {
	b := depthwise.Block[T]{K: x.k, C: n, Weights: room[:x.k*n], SiLU: x.p.Silu}
	transposed(b.Weights, n, x.w[c*x.k:], x.k, n, x.k)
	if x.bias != nil {
		b.Bias = x.bias[c:][:n]
	}
	return b
}

// scratch returns the number of elements of scratch memory that a piece needs.
func (x *convolutionArgs[T]) scratch() int {
	most := depthwise.Block[T]{K: x.k, C: min(x.c, convolutionChannels)}
	return x.k*most.C + most.Scratch()
}

const (
	// Blocks have this many channels, with all rows and weights of a block in the second-level cache. More would
	// not fit, and fewer make the reads of rows shorter than the processor fetches ahead.
	convolutionChannels = 4096
	// A piece of the convolution is this many rows of a block.
	convolutionRows = 64
	// A piece of the derivative is lines of this many channels: a cache line of f32.
	convolutionLine = 16
)

func convolutionKernel[T float](p causalConvolutionOp, placed []lowering.Buf, eqn *graph.Eqn) exec.Kernel {
	return func(a *exec.Args) error {
		x, err := newConvolutionArgs[T](p, a, 3, placed, eqn)
		if err != nil {
			return err
		}
		w := convolutionWork[T]{convolutionArgs: x, y: data[T](a.Out[0]), last: data[T](a.Out[1]), blocks: (x.c + convolutionChannels - 1) / convolutionChannels,
			steps: max((x.t+convolutionRows-1)/convolutionRows, 1), rooms: exec.RoomsOf[T](a, x.scratch())}
		exec.Share(a, x.b*w.blocks*w.steps, 1+cheap/(1+min(x.t, convolutionRows)*min(x.c, convolutionChannels)), w)
		return nil
	}
}

// convolutionWork is the work of the convolution: steps of rows of sequences, for each block of channels.
type convolutionWork[T float] struct {
	convolutionArgs[T]
	y, last       []T
	blocks, steps int
	rooms         *exec.Rooms[T]
}

func (w *convolutionWork[T]) Piece(lo, hi int) {
	room, block := w.rooms.Take(), depthwise.Block[T]{}
	for i := lo; i < hi; i++ {
		c, b, step := i/w.steps/w.b*convolutionChannels, i/w.steps%w.b, i%w.steps
		if i == lo || b == 0 && step == 0 {
			block = w.block(c, min(convolutionChannels, w.c-c), room)
		}
		from, to := step*convolutionRows, min((step+1)*convolutionRows, w.t)
		n, x, y := w.lengths.of(b, w.t), w.rows(w.state, w.x, b, c), w.channels(w.y, b, w.t, c)
		block.Forward(&x, from, min(to, n), y, room[len(block.Weights):])
		clearRows(y, max(from, n), to, block.C)
		if step == 0 { // which alone reads the state, so that last may lie over it
			block.Last(&x, n, w.channels(w.last, b, w.k-1, c))
		}
	}
}

// causalConvolutionGradOp is the derivative of causalConvolutionOp: the cotangents of x, state and, for each sequence
// of the batch, w and bias, from the arguments, the cotangents of y and of the last state, and the optional arguments.
type causalConvolutionGradOp causalConvolutionOp

var _ primitive = causalConvolutionGradOp{}

func (causalConvolutionGradOp) Name() string { return "causal_convolution_grad" }

func (p causalConvolutionGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	_, _, count := causalConvolutionOp(p).optional(5)
	if err := arity(in, count); err != nil {
		return nil, err
	}
	out, err := causalConvolutionOp(p).Infer(append(append([]graph.Type(nil), in[:3]...), in[5:]...))
	if err != nil {
		return nil, err
	}
	for i, want := range out {
		if !in[3+i].Equal(want) {
			return nil, fmt.Errorf("argument %d is %s, want %s for x and w of these types", 3+i, in[3+i], want)
		}
	}
	wide, b, c := max(in[0].DType, graph.F32), in[0].Shape[0], in[0].Shape[2]
	grads := []graph.Type{in[0], graph.T(wide, b, c, in[1].Shape[1]), in[2]}
	if p.Bias {
		grads = append(grads, graph.T(wide, b, c))
	}
	return grads, nil
}

// VJP differentiates the formula.
func (p causalConvolutionGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		args, cts := append(in[:3:3], in[5:]...), in[3:5]
		b, wide := in[0].Dim(0), e.Out[1].Type.DType
		args[1] = ConvertElementType(BroadcastInDim(in[1], append([]int{b}, in[1].Type.Shape...), 1, 2), wide)
		if p.Bias {
			args[3] = ConvertElementType(BroadcastInDim(in[5], append([]int{b}, in[5].Type.Shape...), 1), wide)
		}
		grads, err := differentiate(&graph.Eqn{In: args, Out: cts}, cts, causalConvolutionOp(p).formula)
		if err != nil {
			graph.Fail("%v", err)
		}
		return grads[:len(e.Out)]
	})
}

// formula returns y and the last state, with simple primitives. Each sequence has its own w[B,C,k] and bias[B,C].
func (p causalConvolutionOp) formula(in []*graph.Value) []*graph.Value {
	bias, lengths, _ := p.optional(3)
	x, w := in[0], in[1]
	d, t, k := x.Type.DType, x.Dim(1), w.Dim(2)
	rows := Concatenate(1, in[2], x)
	all, y := ConvertElementType(rows, w.Type.DType), Full(x.Tracer(), 0, w.Type.DType, x.Type.Shape...)
	if p.Bias {
		y = BroadcastInDim(in[bias], x.Type.Shape, 0, 2)
	}
	for j := range k {
		tap := Reshape(SliceInDim(w, 2, j, j+1), x.Dim(0), x.Dim(2))
		y = Add(y, Mul(BroadcastInDim(tap, x.Type.Shape, 0, 2), SliceInDim(all, 1, j, j+t)))
	}
	if p.Silu {
		y = SiLU(y)
	}
	if !p.Lengths {
		return []*graph.Value{ConvertElementType(y, d), SliceInDim(rows, 1, t, t+k-1)}
	}
	at := func(shape []int) (row, length *graph.Value) {
		return Iota(x.Tracer(), graph.I32, 1, shape...), BroadcastInDim(in[lengths], shape, 0)
	}
	row, length := at(x.Type.Shape)
	y = Where(Lt(row, length), y, ZerosLike(y))
	return []*graph.Value{ConvertElementType(y, d), TakeAlongAxis(rows, Add(at(in[2].Type.Shape)), 1)}
}

func (p causalConvolutionGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(causalConvolutionOp(p).factors(true))
}

func (p causalConvolutionGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	k := inFloat(convolutionGradKernel[float32](causalConvolutionOp(p), in, e.Eqn), convolutionGradKernel[float64](causalConvolutionOp(p), in, e.Eqn))
	return e.Emit(lowering.KernelSpec{Op: ops.CausalConvolutionGrad, Out: out, In: in, Dry: k, Kernel: k})
}

func convolutionGradKernel[T float](p causalConvolutionOp, placed []lowering.Buf, eqn *graph.Eqn) exec.Kernel {
	return func(a *exec.Args) error {
		x, err := newConvolutionArgs[T](p, a, 5, placed, eqn)
		if err != nil {
			return err
		}
		w := convolutionGrad[T]{convolutionArgs: x, dy: data[T](a.In[3]), dlast: data[T](a.In[4]), lines: (x.c + convolutionLine - 1) / convolutionLine,
			dx: data[T](a.Out[0]), dw: data[T](a.Out[1]), dstate: data[T](a.Out[2])}
		w.rooms, w.sums = exec.RoomsOf[T](a, x.scratch()), exec.RoomsOf[float64](a, (x.k+1)*min(x.c, convolutionChannels))
		if p.Bias {
			w.dbias = data[T](a.Out[3])
		}
		exec.Share(a, x.b*w.lines, 1+cheap/4/(1+x.t*convolutionLine), w)
		return nil
	}
}

// convolutionGrad is the work of the derivative. A piece is some of the lines of channels of the sequences, with
// all of their rows.
type convolutionGrad[T float] struct {
	convolutionArgs[T]
	lines                 int
	dy, dlast             []T
	dx, dw, dstate, dbias []T
	rooms                 *exec.Rooms[T]
	sums                  *exec.Rooms[float64]
}

func (w *convolutionGrad[T]) Piece(lo, hi int) {
	room, sums := w.rooms.Take(), w.sums.Take()
	for lo < hi {
		b, line := lo/w.lines, lo%w.lines
		lines := min(hi-lo, w.lines-line, convolutionChannels/convolutionLine)
		lo += lines
		c := line * convolutionLine
		block := w.block(c, min(lines*convolutionLine, w.c-c), room)
		n, x, dx := w.lengths.of(b, w.t), w.rows(w.state, w.x, b, c), w.rows(w.dstate, w.dx, b, c)
		sums := sums[:w.k*block.C]
		if w.p.Bias {
			sums = sums[:(w.k+1)*block.C]
		}
		clear(sums)
		block.Backward(&x, n, w.channels(w.dy, b, w.t, c), w.channels(w.dlast, b, w.k-1, c), &dx, sums, room[len(block.Weights):])
		clearRows(dx.Sequence, n, w.t, block.C)
		for i, s := range sums {
			j, at := i/block.C, b*w.c+c+i%block.C
			if j < w.k {
				w.dw[at*w.k+j] = T(s)
			} else {
				w.dbias[at] = T(s)
			}
		}
	}
}

func (causalConvolutionGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[B,T,C], w f[C,k], state f[B,k-1,C], dy f[B,T,C], dlast f[B,k-1,C], and where their parameters say so bias f[C], lengths i32[B]",
		Results: "dx f[B,T,C], dw f32[B,C,k], dstate f[B,k-1,C], and with bias dbias f32[B,C]",
		Formula: "dz = dy, or dy times silu' of the sum; ds[t+j] = Σ w[j] dz[t], and dlast is added to rows T to T+k-2; dw[j] = Σ dz[t] s[t+j], dbias = Σ dz; dstate and dx are the rows of ds",
		Params:  "silu: as in causal_convolution; bias: as in causal_convolution; lengths: rows of each sequence; later rows have dx 0",
		Notes:   "Sums are computed again. dw and dbias are those of each sequence, f64 for f64 and f32 for others; the derivative adds them over the batch. 64 rows are added in f32, and these sums in f64."}
}
