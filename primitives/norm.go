package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// layerNormOp shifts and scales rows to mean 0 and variance 1, before applying a gain and
// a bias. layerNormGradOp computes the cotangent of its x, and layerNormGainGradOp the
// cotangents of gain and bias.
type (
	layerNormOp         struct{ Eps float64 }
	layerNormGradOp     struct{ Eps float64 }
	layerNormGainGradOp struct {
		Eps float64
		// Tree, if not 0, is the number of blocks of dimension 0. The rows of each block are
		// summed, and these sums are added in pairs, so that the result does not depend on the
		// number of ranks. It is f32 or f64.
		Tree int
	}
)

var (
	_ primitive = layerNormOp{}
	_ primitive = layerNormGradOp{}
	_ primitive = layerNormGainGradOp{}

	_ sharding.Blocked = layerNormGainGradOp{}
)

// LayerNorm returns (x - mean) / √(variance + eps) · gain + bias, with the mean and
// the variance over the last dimension. x[..,D], gain[D] and bias[D] have one float
// type; eps is at least 0. A row of equal elements with eps 0 is NaN.
// Source: Ba, Kiros and Hinton, "Layer normalization" (2016).
func LayerNorm(x, gain, bias *graph.Value, eps float64) *graph.Value {
	return graph.Apply1(layerNormOp{eps}, x, gain, bias)
}

func (layerNormOp) Name() string         { return "layer_norm" }
func (layerNormGradOp) Name() string     { return "layer_norm_grad" }
func (layerNormGainGradOp) Name() string { return "layer_norm_gain_grad" }

func (p layerNormOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if _, err := rmsNormOp(p).Infer(in[:2]); err != nil {
		return nil, err
	}
	return in[:1], parameterOf(in[0], in[2], "bias")
}

func (p layerNormGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	return rmsNormGradOp(p).Infer(in)
}

func (p layerNormGainGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	out, err := rmsNormGainGradOp{p.Eps, p.Tree}.Infer(in)
	if err != nil {
		return nil, err
	}
	return []graph.Type{out[0], out[0]}, nil
}

func (p layerNormOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, gain := e.In[0], e.In[1]
	sums := graph.Apply(layerNormGainGradOp{Eps: p.Eps}, x, ct[0])
	return []*graph.Value{graph.Apply1(layerNormGradOp(p), x, gain, ct[0]), sums[0], sums[1]}, nil
}

// normal returns (x - mean) / √(variance + eps), and 1 / √(variance + eps) broadcast along
// the rows.
func (p layerNormOp) normal(x *graph.Value) (y, inv *graph.Value) {
	y = Sub(x, rowMean(x))
	inv = Rsqrt(AddScalar(rowMean(Mul(y, y)), p.Eps))
	return Mul(y, inv), inv
}

func (p layerNormGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		c := Mul(in[2], overRows(in[1], in[0]))
		y, inv := layerNormOp(p).normal(in[0])
		return []*graph.Value{Mul(inv, Sub(Sub(c, rowMean(c)), Mul(y, rowMean(Mul(c, y)))))}
	})
}

func (p layerNormGainGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		y, _ := layerNormOp{p.Eps}.normal(in[0])
		return []*graph.Value{sumRows(Mul(in[1], y)), sumRows(in[1])}
	})
}

func (layerNormOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Rows(n-1, []int{n, -1, -1}, []int{n}))
}

func (layerNormGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Rows(n-1, []int{n, -1, n}, []int{n}))
}

func (p layerNormGainGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	dec, err := c.Place(sumOfRows(c.Type(0).Rank(), 2, 2))
	if err == nil && p.Tree > 0 {
		err = placeTree(c, &dec, p.Tree, 0, 0)
	}
	return dec, err
}

// InBlocks implements sharding.Blocked.
func (p layerNormGainGradOp) InBlocks(e *graph.Eqn, in []sharding.Spec, blocks int) (graph.Primitive, error) {
	p.Tree = blocks
	rank := e.In[0].Type.Rank()
	return p, firstInBlocks(e, in[0], kept(rank, []int{rank - 1}), blocks)
}

func (p layerNormOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.LayerNorm, out, in, layerNormKernel[float32](p.Eps), layerNormKernel[float64](p.Eps))
}

func (p layerNormGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.LayerNormGrad, out, in, layerNormGradKernel[float32](p.Eps), layerNormGradKernel[float64](p.Eps))
}

func (p layerNormGainGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if p.Tree > 0 {
		return emitTree(e, lowering.KernelSpec{Op: ops.LayerNormGainGrad | ops.Tree, Out: out, In: in}, p.Tree, 0, 0, func(run blockRun) exec.Kernel {
			return inFloat(inTree(layerNormGainKernel[float32](p.Eps), 2, run), inTree(layerNormGainKernel[float64](p.Eps), 2, run))
		})
	}
	return floatKernel(e, ops.LayerNormGainGrad, out, in, layerNormGainKernel[float32](p.Eps), layerNormGainKernel[float64](p.Eps))
}

func layerNormKernel[T float](eps float64) exec.Kernel {
	return func(a *exec.Args) error {
		x, gain, bias, y := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.Out[0])
		rows, n := rowsOf(a.In[0].Type)
		exec.Share(a, rows, rowGrain(n), layerNormRows[T]{y, x, gain, bias, n, eps})
		return nil
	}
}

func layerNormGradKernel[T float](eps float64) exec.Kernel {
	return func(a *exec.Args) error {
		x, gain, ct, dx := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.Out[0])
		rows, n := rowsOf(a.In[0].Type)
		exec.Share(a, rows, rowGrain(n), layerNormGradRows[T]{dx, x, gain, ct, n, eps})
		return nil
	}
}

func layerNormGainKernel[T float](eps float64) exec.Kernel {
	return func(a *exec.Args) error {
		x, ct := data[T](a.In[0]), data[T](a.In[1])
		rows, n := rowsOf(a.In[0].Type)
		mean, inv := exec.Make[float64](a, rows), exec.Make[float64](a, rows)
		exec.Share(a, rows, rowGrain(n), moments[T]{mean, inv, x, n, eps})
		sumColumns(a, columnSums[T]{sum: data[T](a.Out[0]), x: x, ct: ct, mean: mean, inv: inv, rows: rows})
		sumColumns(a, columnSums[T]{sum: data[T](a.Out[1]), ct: ct, rows: rows})
		return nil
	}
}

type layerNormRows[T float] struct {
	y, x, gain, bias []T
	n                int
	eps              float64
}

func (w *layerNormRows[T]) Piece(lo, hi int) {
	lo, hi = lo*w.n, hi*w.n
	norm.LayerNorm(w.y[lo:hi], w.x[lo:hi], w.gain, w.bias, w.n, w.eps)
}

type layerNormGradRows[T float] struct {
	dx, x, gain, ct []T
	n               int
	eps             float64
}

func (w *layerNormGradRows[T]) Piece(lo, hi int) {
	lo, hi = lo*w.n, hi*w.n
	norm.LayerNormGrad(w.dx[lo:hi], w.x[lo:hi], w.gain, w.ct[lo:hi], w.n, w.eps)
}

type moments[T float] struct {
	mean, inv []float64
	x         []T
	n         int
	eps       float64
}

func (w *moments[T]) Piece(lo, hi int) {
	norm.Moments(w.mean[lo:hi], w.inv[lo:hi], w.x[lo*w.n:hi*w.n], w.n, w.eps)
}

func (layerNormOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,D], gain f[D], bias f[D]", Results: "f[..,D]", Formula: "y = (x - mean(x)) / √(mean((x - mean(x))²) + eps) · gain + bias",
		Params: "eps: number ≥ 0", Notes: "Mean and variance of a row are summed in f64."}
}

func (layerNormGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,D], gain f[D], ct f[..,D]", Results: "f[..,D]",
		Formula: "dx = r · (c - mean(c) - y · mean(c·y)), c = ct · gain, y = (x - mean(x)) · r, r = 1/√(variance + eps)", Params: "eps: number ≥ 0"}
}

func (layerNormGainGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,D], ct f[..,D]", Results: "f[D], f[D]",
		Formula: "dgain = Σ ct · (x - mean(x)) / √(variance + eps), dbias = Σ ct over the rows", Params: "eps: number ≥ 0; tree: blocks of dimension 0 whose sums are added in pairs, for f32 or f64"}
}

// rmsNormOp divides rows by the root of their mean square, before applying a gain.
type rmsNormOp struct{ Eps float64 }

// rmsNormGradOp is the cotangent of rmsNormOp's x, and rmsNormGainGradOp the cotangent of its gain.
type (
	rmsNormGradOp     struct{ Eps float64 }
	rmsNormGainGradOp struct {
		Eps float64
		// Tree, if not 0, is the number of blocks of dimension 0. The rows of each block are
		// summed, and these sums are added in pairs, so that the result does not depend on the
		// number of ranks. It is f32 or f64.
		Tree int
	}
)

var (
	_ primitive = rmsNormOp{}
	_ primitive = rmsNormGradOp{}
	_ primitive = rmsNormGainGradOp{}

	_ sharding.Blocked = rmsNormGainGradOp{}
)

// RMSNorm returns x / √(mean(x²) + eps) · gain, with the mean over the last
// dimension. x[..,D] and gain[D] have the same float type; eps is at least 0. A row of
// zeros with eps 0 gives NaN. Source: Zhang and Sennrich, "Root Mean Square Layer
// Normalization" (2019).
func RMSNorm(x, gain *graph.Value, eps float64) *graph.Value {
	return graph.Apply1(rmsNormOp{eps}, x, gain)
}

func (rmsNormOp) Name() string         { return "rms_norm" }
func (rmsNormGradOp) Name() string     { return "rms_norm_grad" }
func (rmsNormGainGradOp) Name() string { return "rms_norm_gain_grad" }

func (p rmsNormOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := p.rows(in[0]); err != nil {
		return nil, err
	}
	return in[:1], parameterOf(in[0], in[1], "gain")
}

func (p rmsNormOp) rows(x graph.Type) error {
	if err := floating(x); err != nil {
		return err
	}
	if err := atLeast(x, 1); err != nil {
		return err
	}
	return epsilon(p.Eps)
}

func (p rmsNormGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if err := alike([]graph.Type{in[0], in[2]}); err != nil {
		return nil, err
	}
	return rmsNormOp(p).Infer(in[:2])
}

func (p rmsNormGainGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := alike(in); err != nil {
		return nil, err
	}
	if err := (rmsNormOp{p.Eps}).rows(in[0]); err != nil {
		return nil, err
	}
	out := []graph.Type{graph.T(in[0].DType, in[0].Shape[in[0].Rank()-1])}
	if p.Tree != 0 {
		if in[0].Rank() < 2 {
			return nil, fmt.Errorf("tree=%d for one row, want a dimension to cut into blocks", p.Tree)
		}
		return out, treeOf(p.Tree, in[0].Shape[0], out[0])
	}
	return out, nil
}

func (p rmsNormOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, gain := e.In[0], e.In[1]
	return []*graph.Value{
		graph.Apply1(rmsNormGradOp(p), x, gain, ct[0]),
		graph.Apply1(rmsNormGainGradOp{Eps: p.Eps}, x, ct[0]),
	}, nil
}

// inverse returns 1/√(mean(x²) + eps), broadcast along the rows.
func (p rmsNormOp) inverse(x *graph.Value) *graph.Value {
	return Rsqrt(AddScalar(rowMean(Mul(x, x)), p.Eps))
}

func (p rmsNormGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return differentiate(e, ct, func(in []*graph.Value) []*graph.Value {
		x, c := in[0], Mul(in[2], overRows(in[1], in[0]))
		r := rmsNormOp(p).inverse(x)
		y := Mul(x, r)
		return []*graph.Value{Mul(r, Sub(c, Mul(y, rowMean(Mul(c, y)))))}
	})
}

func (p rmsNormGainGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, g := e.In[0], overRows(ct[0], e.In[0])
	return []*graph.Value{
		// The result's derivative is Σ g·(x/rms)·ct over the rows: the cotangent g
		// replaces the gain of rms_norm.
		graph.Apply1(rmsNormGradOp{p.Eps}, x, ct[0], e.In[1]),
		Mul(Mul(g, x), rmsNormOp{p.Eps}.inverse(x)),
	}, nil
}

func (rmsNormOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Rows(n-1, []int{n, -1}, []int{n}))
}

func (rmsNormGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Rows(n-1, []int{n, -1, n}, []int{n}))
}

func (p rmsNormGainGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	dec, err := c.Place(sumOfRows(c.Type(0).Rank(), 2, 1))
	if err == nil && p.Tree > 0 {
		err = placeTree(c, &dec, p.Tree, 0, 0)
	}
	return dec, err
}

// InBlocks implements sharding.Blocked.
func (p rmsNormGainGradOp) InBlocks(e *graph.Eqn, in []sharding.Spec, blocks int) (graph.Primitive, error) {
	p.Tree = blocks
	rank := e.In[0].Type.Rank()
	return p, firstInBlocks(e, in[0], kept(rank, []int{rank - 1}), blocks)
}

func (p rmsNormOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.RMSNorm, out, in, rmsNormKernel[float32](p.Eps), rmsNormKernel[float64](p.Eps))
}

func (p rmsNormGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return floatKernel(e, ops.RMSNormGrad, out, in, rmsNormGradKernel[float32](p.Eps), rmsNormGradKernel[float64](p.Eps))
}

func (p rmsNormGainGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	if p.Tree > 0 {
		return emitTree(e, lowering.KernelSpec{Op: ops.RMSNormGainGrad | ops.Tree, Out: out, In: in}, p.Tree, 0, 0, func(run blockRun) exec.Kernel {
			return inFloat(inTree(rmsNormGainKernel[float32](p.Eps), 2, run), inTree(rmsNormGainKernel[float64](p.Eps), 2, run))
		})
	}
	return floatKernel(e, ops.RMSNormGainGrad, out, in, rmsNormGainKernel[float32](p.Eps), rmsNormGainKernel[float64](p.Eps))
}

func rmsNormKernel[T float](eps float64) exec.Kernel {
	return func(a *exec.Args) error {
		x, gain, y := data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		rows, n := rowsOf(a.In[0].Type)
		exec.Share(a, rows, rowGrain(n), rmsNormRows[T]{y, x, gain, n, eps})
		return nil
	}
}

func rmsNormGradKernel[T float](eps float64) exec.Kernel {
	return func(a *exec.Args) error {
		x, gain, ct, dx := data[T](a.In[0]), data[T](a.In[1]), data[T](a.In[2]), data[T](a.Out[0])
		rows, n := rowsOf(a.In[0].Type)
		exec.Share(a, rows, rowGrain(n), rmsNormGradRows[T]{dx, x, gain, ct, n, eps})
		return nil
	}
}

func rmsNormGainKernel[T float](eps float64) exec.Kernel {
	return func(a *exec.Args) error {
		x, ct, dgain := data[T](a.In[0]), data[T](a.In[1]), data[T](a.Out[0])
		rows, n := rowsOf(a.In[0].Type)
		inv := exec.Make[float64](a, rows)
		exec.Share(a, rows, rowGrain(n), rmsInverses[T]{inv, x, n, eps})
		sumColumns(a, columnSums[T]{sum: dgain, x: x, ct: ct, inv: inv, rows: rows})
		return nil
	}
}

type rmsNormRows[T float] struct {
	y, x, gain []T
	n          int
	eps        float64
}

func (w *rmsNormRows[T]) Piece(lo, hi int) {
	lo, hi = lo*w.n, hi*w.n
	norm.RMSNorm(w.y[lo:hi], w.x[lo:hi], w.gain, w.n, w.eps)
}

type rmsNormGradRows[T float] struct {
	dx, x, gain, ct []T
	n               int
	eps             float64
}

func (w *rmsNormGradRows[T]) Piece(lo, hi int) {
	lo, hi = lo*w.n, hi*w.n
	norm.RMSNormGrad(w.dx[lo:hi], w.x[lo:hi], w.gain, w.ct[lo:hi], w.n, w.eps)
}

type rmsInverses[T float] struct {
	inv []float64
	x   []T
	n   int
	eps float64
}

func (w *rmsInverses[T]) Piece(lo, hi int) {
	norm.RMSInverse(w.inv[lo:hi], w.x[lo*w.n:hi*w.n], w.n, w.eps)
}

// columnSums sums over the rows, in order: ct[rows,n] if x is nil, and otherwise ct times
// the normalised x, x·inv or, if mean is not nil, (x-mean)·inv.
type columnSums[T float] struct {
	sum, x, ct     []T
	mean, inv, all []float64
	rows           int
}

func sumColumns[T float](a *exec.Args, w columnSums[T]) {
	w.all = exec.Make[float64](a, len(w.sum))
	exec.Share(a, len(w.sum), 1+4*dear/(1+w.rows), w)
}

func (w *columnSums[T]) Piece(lo, hi int) {
	acc := w.all[lo:hi]
	switch {
	case w.rows == 0:
	case w.x == nil:
		norm.AddBias(acc, w.ct[lo:], len(w.sum), w.rows)
	default:
		norm.AddGain(acc, w.x[lo:], w.ct[lo:], len(w.sum), w.mean, w.inv)
	}
	for i, s := range acc {
		w.sum[lo+i] = T(s)
	}
}

func (rmsNormOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,D], gain f[D]", Results: "f[..,D]", Formula: "y = x / √(mean(x²) + eps) · gain",
		Params: "eps: number ≥ 0", Notes: "The mean of a row is summed in f64, in the same order on every machine."}
}

func (rmsNormGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,D], gain f[D], ct f[..,D]", Results: "f[..,D]",
		Formula: "dx = r · (ct·gain - x · r² · mean(ct·gain·x)), r = 1/√(mean(x²) + eps)", Params: "eps: number ≥ 0"}
}

func (rmsNormGainGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "x f[..,D], ct f[..,D]", Results: "f[D]",
		Formula: "dgain = Σ ct · x / √(mean(x²) + eps) over the rows", Params: "eps: number ≥ 0; tree: blocks of dimension 0 whose sums are added in pairs, for f32 or f64"}
}
