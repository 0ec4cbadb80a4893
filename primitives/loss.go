package primitives

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/vector"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// crossEntropyOp is the loss of each token; crossEntropyGradOp is its derivative.
type (
	crossEntropyOp     struct{}
	crossEntropyGradOp struct{}
)

var (
	_ primitive = crossEntropyOp{}
	_ primitive = crossEntropyGradOp{}
)

// IgnoredLabel is the label of a token without loss.
const IgnoredLabel = -1

// CrossEntropy returns log Σ exp(logits) - logits[label] for each token:
// logits[..,V] of a float type, labels i32[..] from 0 to V-1, loss[..] of the
// logits' type or f32, whichever is wider. A token with the label IgnoredLabel has
// loss 0 and gradient 0. Any other label stops the run with an error giving its
// position.
func CrossEntropy(logits, labels *graph.Value) *graph.Value {
	return graph.Apply1(crossEntropyOp{}, logits, labels)
}

func (crossEntropyOp) Name() string     { return "cross_entropy" }
func (crossEntropyGradOp) Name() string { return "cross_entropy_grad" }

func (crossEntropyOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	logits, labels := in[0], in[1]
	if err := floating(logits); err != nil {
		return nil, fmt.Errorf("logits: %w", err)
	}
	if err := atLeast(logits, 1); err != nil {
		return nil, fmt.Errorf("logits: %w", err)
	}
	if want := graph.T(graph.I32, logits.Shape[:logits.Rank()-1]...); !labels.Equal(want) {
		return nil, fmt.Errorf("labels are %s for logits %s, want %s", labels, logits, want)
	}
	return []graph.Type{labels.With(max(logits.DType, graph.F32))}, nil
}

func (crossEntropyGradOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	loss, err := crossEntropyOp{}.Infer(in[:2])
	if err != nil {
		return nil, err
	}
	if !in[2].Equal(loss[0]) {
		return nil, fmt.Errorf("the cotangent is %s, want that of the loss %s", in[2], loss[0])
	}
	return in[:1], nil
}

func (crossEntropyOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	return []*graph.Value{graph.Apply1(crossEntropyGradOp{}, e.In[0], e.In[1], ct[0]), nil}, nil
}

// VJP differentiates (p - onehot) · ct with p = softmax(logits).
func (crossEntropyGradOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	logits, labels, c, g := e.In[0], e.In[1], e.In[2], ct[0]
	axis := logits.Rank() - 1
	wide := c.Type.DType
	counted := ConvertElementType(Ge(labels, ZerosLike(labels)), wide)
	c = ConvertElementType(along(Mul(c, counted), logits, axis), logits.Type.DType)
	unit := graph.Apply1(crossEntropyGradOp{}, logits, labels, OnesLike(e.In[2]))
	dct := ReduceSumUnordered(ConvertElementType(Mul(g, unit), wide), axis)
	return []*graph.Value{graph.Apply1(softmaxOp{ops.SoftmaxGrad, axis}, Softmax(logits, axis), Mul(g, c)), nil, dct}, nil
}

func (crossEntropyOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Rows(n-1, []int{n, n - 1}, []int{n - 1}))
}

func (crossEntropyGradOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	n := c.Type(0).Rank()
	return c.Place(sharding.Rows(n-1, []int{n, n - 1, n - 1}, []int{n}))
}

func (crossEntropyOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.CrossEntropy, Out: out, In: in, Dry: widening(), Kernel: checkLabels(in[1].Spec, e.Eqn.In[1].Type, inFloat(crossEntropyKernel[float32], crossEntropyKernel[float64]))})
}

func (crossEntropyGradOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: ops.CrossEntropyGrad, Out: out, In: in, Dry: widening(), Kernel: checkLabels(in[1].Spec, e.Eqn.In[1].Type, inFloat(crossEntropyGradKernel[float32], crossEntropyGradKernel[float64]))})
}

// checkLabels returns a kernel checking the labels, argument 1, of type t with placement s, before
// running k.
func checkLabels(s sharding.Spec, t graph.Type, k exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		_, vocab := rowsOf(a.In[0].Type)
		return checkIDs(a, s, t, a.In[1], IgnoredLabel, vocab, "label", k)
	}
}

func crossEntropyKernel[T float](a *exec.Args) error {
	x, labels, loss := data[T](a.In[0]), data[int32](a.In[1]), data[T](a.Out[0])
	rows, n := rowsOf(a.In[0].Type)
	exec.Share(a, rows, rowGrain(n), crossEntropyRows[T]{x, loss, labels, n})
	return nil
}

type crossEntropyRows[T float] struct {
	x, loss []T
	labels  []int32
	n       int
}

func (w *crossEntropyRows[T]) Piece(lo, hi int) {
	for r := lo; r < hi; r++ {
		w.loss[r] = 0
		if w.labels[r] == IgnoredLabel {
			continue
		}
		row := w.x[r*w.n:][:w.n]
		m := vector.Max(row)
		w.loss[r] = T(math.Log(vector.ExpTotal(row, m)) - (float64(row[w.labels[r]]) - float64(m)))
	}
}

func crossEntropyGradKernel[T float](a *exec.Args) error {
	x, labels, ct, dx := data[T](a.In[0]), data[int32](a.In[1]), data[T](a.In[2]), data[T](a.Out[0])
	rows, n := rowsOf(a.In[0].Type)
	exec.Share(a, rows, rowGrain(n), crossEntropyGradRows[T]{x, ct, dx, labels, n})
	return nil
}

type crossEntropyGradRows[T float] struct {
	x, ct, dx []T
	labels    []int32
	n         int
}

func (w *crossEntropyGradRows[T]) Piece(lo, hi int) {
	for r := lo; r < hi; r++ {
		row, out, c := w.x[r*w.n:][:w.n], w.dx[r*w.n:][:w.n], float64(w.ct[r])
		if w.labels[r] == IgnoredLabel {
			clear(out)
			continue
		}
		sum := vector.ExpSum(out, row, vector.Max(row))
		label := out[w.labels[r]]
		vector.Scaled(out, out, c, sum)
		out[w.labels[r]] = T((float64(label)/sum - 1) * c)
	}
}

func (crossEntropyOp) Doc() graph.Doc {
	return graph.Doc{Args: "logits f[..,V], labels i32[..]", Results: "f[..]", Formula: "loss = log Σ exp(logits) - logits[label]",
		Notes: "The loss of bf16 and f16 logits is f32. A row with nan or inf, and one of nothing but -inf, has the loss nan, whatever its label. Label -1 has loss 0 and gradient 0; any other below 0 or from V on stops the run."}
}

func (crossEntropyGradOp) Doc() graph.Doc {
	return graph.Doc{Args: "logits f[..,V], labels i32[..], ct f[..]", Results: "f[..,V]", Formula: "dlogits = (softmax(logits) - onehot(label)) · ct",
		Notes: "Rows with label -1 are 0."}
}

// CrossEntropyInBlocks is CrossEntropy of f32 or f64 logits, computed in equal blocks of the vocabulary. Place or ShardingConstraint
// may split the last dimension of the logits over mesh axes. The ranks then exchange, for each token, two numbers per block and one for
// the label, without gathering logits or their cotangents. blocks must divide the vocabulary, and the number of ranks must divide
// blocks. The result has the same bits on all such meshes. CrossEntropy, and other numbers of blocks, sum in another order. Labels are
// as in CrossEntropy.
func CrossEntropyInBlocks(logits, labels *graph.Value, blocks int) *graph.Value {
	graph.Helper()
	n := logits.Rank() - 1
	if n < 0 || blocks < 1 || logits.Dim(-1)%blocks != 0 {
		graph.Fail("cross entropy of logits %s in %d blocks, want blocks of equal size", logits.Type, blocks)
	}
	if d := logits.Type.DType; d != graph.F32 && d != graph.F64 {
		graph.Fail("cross entropy in blocks of logits %s, want f32 or f64", logits.Type)
	}
	d, vocab := logits.Type.DType, logits.Dim(-1)
	lead := logits.Type.Shape[:n]
	x := Reshape(logits, slices.Concat(lead, []int{blocks, vocab / blocks})...)
	dims := make([]int, n+1)
	for i := range dims {
		dims[i] = i
	}
	wide := func(v *graph.Value, like *graph.Value) *graph.Value {
		return BroadcastInDim(v, like.Type.Shape, dims[:v.Rank()]...)
	}
	// For each block: its largest logit and the sum of exponentials relative to it.
	most := StopGradient(ReduceMax(x, n+1))
	sums := ReduceSum(Exp(Sub(x, wide(most, x))), n+1)
	top := StopGradient(ReduceMax(most, n))
	total := ReduceSum(Mul(sums, Exp(Sub(most, wide(top, most)))), n)
	// Exactly one number of each token is not 0.
	checked := AddScalar(Gather(Iota(logits.Tracer(), graph.I32, 0, vocab+1), Add(labels, FullLike(labels, 1)), 0), -1)
	ids := Reshape(Iota(logits.Tracer(), graph.I32, 0, vocab), blocks, vocab/blocks)
	all := BroadcastInDim(ids, x.Type.Shape, n, n+1)
	own := ReduceSum(Where(Eq(all, wide(checked, all)), x, ZerosLike(x)), n, n+1)
	loss := Sub(Add(Log(total), top), own)
	return Mul(loss, ConvertElementType(Ge(labels, ZerosLike(labels)), d))
}

// LoadBalanceLoss returns the scalar
//
//	E / (K·T²) · Σ_t Σ_e scores[t,e] · demand[e]
//
// for scores f[T,E] and demand i32[E], the number of pairs choosing each expert before
// drops. It is 1 when scores or choices are even, reaching E/K when all tokens choose the
// same experts. Its gradient reaches the router only through the scores. (Fedus, Zoph,
// Shazeer: Switch Transformers, 2021, equation 4, generalised to K choices.)
func LoadBalanceLoss(scores, demand *graph.Value, choices int) *graph.Value {
	graph.Helper()
	s := flatten(scores)
	tokens, experts := float64(s.Dim(0)), float64(s.Dim(1))
	if tokens == 0 {
		return Full(s.Tracer(), 0, s.Type.DType)
	}
	load := ConvertElementType(demand, s.Type.DType)
	return MulScalar(ReduceSum(Mul(s, BroadcastInDim(load, s.Type.Shape, 1))), experts/(float64(choices)*tokens*tokens))
}

// RouterZLoss returns the mean over tokens of logsumexp(logits)², a scalar, for
// logits [..,E], computing in f32 or f64. As a loss it keeps logits small. (Zoph et al.:
// ST-MoE, 2022, equation 5.)
func RouterZLoss(logits *graph.Value) *graph.Value {
	graph.Helper()
	x := flatten(logits)
	if x.Type.DType != graph.F64 && x.Type.DType != graph.F32 {
		x = ConvertElementType(x, graph.F32)
	}
	tokens := float64(max(x.Dim(0), 1))
	return MulScalar(ReduceSum(Square(LogSumExp(x, 1))), 1/tokens)
}
