package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/sharding"
)

// groupedOuterOp sums, for every expert, the outer products of its rows: the
// gradient of groupedMatMulOp with respect to the weights.
type groupedOuterOp struct {
	Experts int
	// Tree, if not 0, is the number of blocks of the tokens. Products are summed over the tokens
	// of each block, and these sums are added in pairs, making the result independent of the
	// number of ranks. The rows are f32 or f64.
	Tree int
	// Precision is as in dotGeneralOp.
	Precision string
}

var _ sharding.Blocked = groupedOuterOp{}
var _ primitive = groupedOuterOp{}

func (groupedOuterOp) Name() string { return "grouped_outer" }

func (g groupedOuterOp) Infer(in []graph.Type) ([]graph.Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if err := precisionOf(g.Precision); err != nil {
		return nil, err
	}
	if g.Tree != 0 && g.Precision != "" {
		return nil, treePrecision(g.Tree, g.Precision)
	}
	x, y := in[0], in[1]
	if err := groupedTypes(x, graph.T(x.DType, g.Experts), in[2]); err != nil {
		return nil, err
	}
	if y.Rank() != 2 || y.DType != x.DType || y.Shape[0] != x.Shape[0] {
		return nil, fmt.Errorf("the second rows are %s, want %s[%d, columns]", y, x.DType, x.Shape[0])
	}
	if g.Experts < 1 {
		return nil, fmt.Errorf("experts=%d, want at least 1", g.Experts)
	}
	return []graph.Type{graph.T(x.DType, g.Experts, x.Shape[1], y.Shape[1])}, treeOf(g.Tree, in[2].Shape[0], x)
}

func (g groupedOuterOp) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	x, y, r := e.In[0], e.In[1], e.In[2]
	return []*graph.Value{
		graph.Apply1(groupedMatMulOp{Transpose: true, Precision: g.Precision}, y, ct[0], r),
		graph.Apply1(groupedMatMulOp{Precision: g.Precision}, x, ct[0], r),
		nil,
	}, nil
}

// Shard leaves a sum pending over the ranks holding the same experts.
func (g groupedOuterOp) Shard(c *sharding.Context) (sharding.Decision, error) {
	c = constantRows(constantRows(c, 0), 1)
	l, err := expertRows(c.In[0], c.Eqn.In[2], "the rows", g.Experts)
	if err != nil {
		return sharding.Decision{}, err
	}
	if _, err := expertRows(c.In[1], c.Eqn.In[2], "the second rows", g.Experts); err != nil {
		return sharding.Decision{}, err
	}
	d, err := withoutExperts(c, -1).Place(sharding.Factors{
		In:  [][]int{{0, 1}, {0, 2}, {4, sharding.Whole, sharding.Whole}},
		Out: [][]int{{3, 1, 2}},
		Sum: []int{0},
	})
	if err != nil {
		return d, err
	}
	experts := l.expertAxes(c.Mesh)
	d.Out[0].Pending = slices.DeleteFunc(slices.Clone(d.Out[0].Pending), func(a string) bool { return slices.Contains(experts, a) })
	if err := l.expertsOver(c, &d.Out[0], &d.In[2], d.In[0].Ragged.Tokens); err != nil || g.Tree == 0 {
		return d, err
	}
	s, err := g.treeSum(c.Mesh, l, c.Type(2).Shape[0], d.In[0].Ragged.Tokens)
	if err == nil {
		s.place(c.Mesh, &d)
	}
	return d, err
}

// InBlocks implements sharding.Blocked.
func (g groupedOuterOp) InBlocks(e *graph.Eqn, _ []sharding.Spec, blocks int) (graph.Primitive, error) {
	g.Tree, g.Precision = blocks, ""
	return g, divides(blocks, e.In[2].Type.Shape[0])
}

func (g groupedOuterOp) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	counts, align, err := e.RowCounts(in[0].Spec)
	if err != nil {
		return err
	}
	if g.Tree > 0 {
		return g.lowerTree(e, out, in, counts, align)
	}
	likely := likelyCounts(e.Eqn.In[0].Type, in[0].Type, out[0].Type.Shape[0], e.Mesh.Ranks())
	if d := in[0].Type.DType; inParts(g.Precision, d, d, d) {
		outer := outerParts(align, g.Precision)
		return e.Emit(lowering.KernelSpec{Op: ops.GroupedOuter | ops.Parts, Out: out, In: []lowering.Buf{in[0], in[1], counts}, Dry: counted(likely, outer), Kernel: outer})
	}
	outer := inNumber(groupedOuter[array.Brain](align), groupedOuter[array.Half](align), groupedOuter[float32](align), groupedOuter[float64](align))
	return e.Emit(lowering.KernelSpec{Op: ops.GroupedOuter, Out: out, In: []lowering.Buf{in[0], in[1], counts}, Through: []int{0, 1}, Dry: counted(likely, outer), Kernel: outer})
}

// groupedOuter writes zeros for experts without rows.
func groupedOuter[E gemm.Number](align int) exec.Kernel {
	return func(a *exec.Args) error {
		if p, n, grain := expertProductsOf[E](a, align); n > 0 {
			exec.Share(a, n, grain, expertOuters[E]{p})
		}
		return nil
	}
}

// expertProducts are products of experts' rows x, of h elements, and y, of f elements.
type expertProducts[E gemm.Number] struct {
	exec.Taking
	dry *kernel.Dry
	expertWork
	x, y gemm.Left[E]
	w    []E
	h, f int
}

// expertProductsOf returns the products of arguments x and y, given the counts, the number of pieces into which
// they may be cut, and the number of pieces worth a goroutine. It writes zeros for experts without rows.
func expertProductsOf[E gemm.Number](a *exec.Args, align int) (p expertProducts[E], pieces, grain int) {
	h, f := a.Out[0].Type.Shape[1], a.Out[0].Type.Shape[2]
	if h == 0 || f == 0 {
		return p, 0, 1
	}
	p = expertProducts[E]{exec.Taking{}, a.Dry(), expertWork{data[int32](a.In[2]), align, h}, expertRowsOf[E](a, 0), expertRowsOf[E](a, 1), data[E](a.Out[0]), h, f}
	for e, n := range p.counts {
		if n == 0 && a.Dry() == nil {
			clear(p.w[e*h*f : (e+1)*h*f])
		}
	}
	return p, total(a.In[2]) * h, 1 + dotGrain/f
}

type expertOuters[E gemm.Number] struct{ expertProducts[E] }

func (p *expertOuters[E]) Piece(lo, hi int) {
	p.each(lo, hi, func(e, start, from, to int) {
		gemm.Outer(p.dry, to-from, p.f, int(p.counts[e]), rowsFrom(p.x, start), from, rowsFrom(p.y, start), kernel.From(p.w, (e*p.h+from)*p.f))
	})
}

func (groupedOuterOp) Doc() graph.Doc {
	return graph.Doc{
		Args: "x f[S,H], y f[S,F], routing i32[T,K,2]", Results: "f[E,H,F]",
		Formula: "w[e] = Σ_i x[i]ᵀ y[i] over the rows i of expert e; 0 for an expert without rows",
		Params:  "experts: E; tree: blocks of tokens whose sums are added in pairs, for f32 or f64 rows; " + precisionDoc,
		Notes:   "The weight gradient of grouped_matmul. Pending over the axes that split the tokens but not the experts.",
	}
}
