package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// groupedMatMulOp multiplies every row by the matrix of the row's expert. Rows
// are in expert order, as dispatched.
//
// The matrices may be weights in blocks. With Transpose, which is the layout of GGUF
// files, rows of f32 and narrower types are then rounded to int8, as blocks.Multiply
// says. For f64 rows, and without Transpose, the weights are converted to numbers.
type groupedMatMulOp struct {
	// Transpose multiplies by the transposed matrices.
	Transpose bool
	// Precision is as in dotGeneralOp.
	Precision string
}

var _ primitive = groupedMatMulOp{}

// GroupedMatMul returns rows[S,H] · w[E,H,F] as [S,F]: row i times the matrix of
// its expert. Rows past an expert's count stay zero.
func GroupedMatMul(r Prepared, rows, w *graph.Value) *graph.Value {
	graph.Helper()
	r.weights(w)
	return graph.Apply1(groupedMatMulOp{}, rows, w, r.Value)
}

// GroupedMatMulTransposed returns rows[S,H] · w[e]ᵀ, with w[E,F,H], as [S,F]. This is
// the layout of GGUF files, and of weights in blocks along H.
func GroupedMatMulTransposed(r Prepared, rows, w *graph.Value) *graph.Value {
	graph.Helper()
	r.weights(w)
	return graph.Apply1(groupedMatMulOp{Transpose: true}, rows, w, r.Value)
}

func (groupedMatMulOp) Name() string { return "grouped_matmul" }

// Blocks marks a primitive taking weights in blocks.
func (groupedMatMulOp) Blocks() {}

func (g groupedMatMulOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if err := precisionOf(g.Precision); err != nil {
		return nil, err
	}
	x, w, r := in[0], in[1], in[2]
	if err := groupedTypes(x, w, r); err != nil {
		return nil, err
	}
	if w.Rank() != 3 || w.DType != x.DType && !w.DType.IsBlock() {
		return nil, fmt.Errorf("weights are %s, want %s[experts, in, out]", w, x.DType)
	}
	h, f := w.Shape[1], w.Shape[2]
	if g.Transpose {
		h, f = f, h
	}
	if x.Shape[1] != h {
		return nil, fmt.Errorf("rows have %d columns, want %d as the weights %s have", x.Shape[1], h, w)
	}
	return []graph.Type{graph.T(x.DType, x.Shape[0], f)}, nil
}

// groupedTypes checks the operands common to all grouped primitives. The first dimension of w is the experts.
func groupedTypes(x, w, r graph.Type) error {
	if x.Rank() != 2 {
		return fmt.Errorf("rows are %s, want [rows, columns]", x)
	}
	if err := floating(x); err != nil {
		return err
	}
	if r.DType != graph.I32 || r.Rank() != 3 || r.Shape[2] != 2 {
		return fmt.Errorf("routing is %s, want i32[tokens, choices, 2] as ep_prepare returns it", r)
	}
	if w.Rank() > 0 && w.Shape[0] > ep.MaxExperts {
		return fmt.Errorf("weights %s of %d experts, want at most %d", w, w.Shape[0], ep.MaxExperts)
	}
	return nil
}

func (g groupedMatMulOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, w, r := e.In[0], e.In[1], e.In[2]
	dx := graph.Apply1(groupedMatMulOp{!g.Transpose, g.Precision}, ct[0], w, r)
	if w.Type.DType.IsBlock() {
		return []*graph.Value{dx, nil, nil}, nil // weights in blocks have no cotangent
	}
	a, b := x, ct[0]
	if g.Transpose {
		a, b = b, a
	}
	dw := graph.Apply1(groupedOuterOp{Experts: w.Dim(0), Precision: g.Precision}, a, b, r)
	return []*graph.Value{dx, dw, nil}, nil
}

// expertRows returns the layer dispatching the rows with placement s. It returns an error if
// the rows are not in the expert order of the routing.
func expertRows(s sharding.Spec, routing *graph.Value, what string, experts int) (epLayer, error) {
	if s.Ragged == nil {
		return epLayer{}, fmt.Errorf("%s are not in expert order; give it what ep_dispatch made, after row-wise primitives and grouped_matmul", what)
	}
	if s.Ragged.Routing != routing.Origin() {
		return epLayer{}, fmt.Errorf("%s are in the order of another routing; use the routing that dispatched them", what)
	}
	p, ok := s.Ragged.Layer.(DispatchOp)
	if !ok {
		return epLayer{}, fmt.Errorf("%s were put in order by %s, want ep_dispatch", what, s.Ragged.Layer.Name())
	}
	if p.Experts != experts {
		return epLayer{}, fmt.Errorf("%s were dispatched to %d experts, the weights are for %d", what, p.Experts, experts)
	}
	return p.layer(), nil
}

// constantRows returns c with argument i, if it is constant rows, placed like the rows
// of another argument. If there are no other rows, it is placed like the rows of the routing,
// provided that an ep_prepare or ep_copies of this program made it.
func constantRows(c *sharding.Context, i int) *sharding.Context {
	routing := c.Eqn.In[2].Origin()
	p, ok := dispatchOf(routing)
	if c.In[i].Ragged != nil || !c.Flexible(i) || !ok {
		return c
	}
	rows := p.layer().rowsSpec(c.Mesh, c.In[2].At(0), routing, p)
	if other := c.In[1-i]; other.Ragged != nil && other.Ragged.Routing == routing {
		rows = sharding.Spec{Dims: [][]string{other.At(0)}, Ragged: other.Ragged}
	}
	d := *c
	d.In = slices.Clone(c.In)
	d.In[i] = rows
	d.In[i].Dims = append(d.In[i].Dims, nil)
	return &d
}

// Shard requires the weights to be split over the experts' axis like the rows. The
// columns of the weights may be split. Splitting the contracted dimension leaves a sum
// pending.
func (g groupedMatMulOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	c = constantRows(c, 0)
	l, err := expertRows(c.In[0], c.Eqn.In[2], "the rows", c.Type(1).Shape[0])
	if err != nil {
		return sharding.Decision{}, err
	}
	in, out := 1, 2
	w := []int{3, in, out}
	if g.Transpose {
		w = []int{3, out, in}
	}
	d, err := withoutExperts(c, 1).Place(sharding.Factors{
		In:      [][]int{{0, in}, w, {4, sharding.Whole, sharding.Whole}},
		Out:     [][]int{{0, out}},
		Sum:     []int{in},
		RowWise: true,
	})
	if err != nil {
		return d, err
	}
	return d, l.expertsOver(c, &d.In[1], &d.In[2], d.In[0].Ragged.Tokens)
}

// withoutExperts returns a context where the routing, argument 2, and the first
// dimension of argument w, if w is not negative, are whole. The axes splitting them
// follow from the axes splitting the rows.
func withoutExperts(c *sharding.Context, w int) *sharding.Context {
	d := *c
	d.In = slices.Clone(c.In)
	d.In[2] = sharding.Spec{}
	if w >= 0 {
		d.In[w].Dims = slices.Clone(c.In[w].Dims)
		d.In[w].Dims[0] = nil
	}
	return &d
}

// expertsOver sets the placements of the weights' expert dimension and of the routing,
// for tokens split over axes.
func (l epLayer) expertsOver(c *sharding.Context, w, routing *sharding.Spec, axes []string) error {
	w.Dims[0] = l.expertAxes(c.Mesh)
	for _, a := range w.Dims[0] {
		for _, d := range w.Dims[1:] {
			if sharding.Over(d, a) {
				return fmt.Errorf("axis %s splits the experts and cannot split another dimension of the weights; gather that with sharding_constraint", a)
			}
		}
	}
	if routing != nil {
		*routing = sharding.Spec{Dims: [][]string{axes, nil, nil}}
	}
	return nil
}

// expertAxes returns the axes splitting the experts: the layer's axis, if the mesh has
// it.
func (l epLayer) expertAxes(m sharding.Mesh) []string {
	if m.Size(l.axis) > 1 {
		return []string{l.axis}
	}
	return nil
}

func (g groupedMatMulOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	counts, align, err := e.RowCounts(in[0].Spec)
	if err != nil {
		return err
	}
	args := []lowering.Buf{in[0], in[1], counts}
	if in[1].Type.DType.IsBlock() {
		product := groupedBlocks(g.Transpose, align)
		var through []int
		if g.Transpose && in[0].Type.DType != graph.F64 { // other products convert weights, and multiply in the type of the rows
			through = []int{0}
		}
		return e.Emit(lowering.KernelSpec{Op: ops.GroupedMatMul | ops.Blocks, Out: out, In: args, Slabs: []int{1}, Through: through,
			Dry: counted(oneExpert(in[0].Type, in[1].Type), product), Kernel: product})
	}
	likely := likelyCounts(e.Eqn.In[0].Type, in[0].Type, in[1].Type.Shape[0], e.Mesh.Ranks())
	if d := in[0].Type.DType; inParts(g.Precision, d, d, d) {
		product := groupedParts(g.Transpose, align, g.Precision)
		return e.Emit(lowering.KernelSpec{Op: ops.GroupedMatMul | ops.Parts, Out: out, In: args, Dry: counted(likely, product), Kernel: product})
	}
	product := expertProduct(g.Transpose, align)
	return e.Emit(lowering.KernelSpec{Op: ops.GroupedMatMul, Out: out, In: args,
		Packs: expertPacks(in[1].Type, g.Transpose, 1), Slabs: []int{1}, Through: []int{0}, Dry: counted(likely, product), Kernel: product})
}

// expertProduct returns the kernel of products of rows and experts' matrices.
func expertProduct(transpose bool, align int) exec.Kernel {
	return inNumber(groupedMatmul[array.Brain](transpose, align), groupedMatmul[array.Half](transpose, align),
		groupedMatmul[float32](transpose, align), groupedMatmul[float64](transpose, align))
}

func groupedMatmul[E gemm.Number](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		f := a.Out[0].Type.Shape[1]
		if f == 0 {
			return nil
		}
		k := expertLayout(a.In[1].Type, transpose).k
		w, rows, grain := fusedOf[E](a, transpose, align, k, k*f)
		exec.Share(a, rows, grain, groupedProducts[E]{w, expertRowsOf[E](a, 0)}) // the engine sets rows between zones to zero
		return nil
	}
}

type groupedProducts[E gemm.Number] struct {
	fused[E]
	x gemm.Left[E]
}

func (w *groupedProducts[E]) Piece(lo, hi int) {
	y, f := data[E](w.Out[0]), w.Out[0].Type.Shape[1]
	w.each(lo, hi, func(e, start, from, to int) {
		from, to = start+from, start+to
		gemm.Product(w.Dry(), to-from, f, w.k, rowsFrom(w.x, from), w.matrix(1, e), kernel.From(y, from*f))
	})
}

func (groupedMatMulOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "rows f[S,H], w t[E,H,F], routing i32[T,K,2]", Results: "f[S,F]",
		Formula: "y[i] = rows[i] · w[e(i)], e(i) the expert whose row i is; 0 past the counts",
		Params:  "transpose: multiply by w[e]ᵀ, w being t[E,F,H]; " + precisionDoc,
		Notes:   "Experts are split over their axis; no rank multiplies for experts of another. Rows are only those that routing dispatched. w has the rows' type, or is in blocks (" + blockTypes() + "): with transpose, rows of f32, bf16 and f16 are then rounded to int8 blocks and multiplied in integers.",
	}
}
