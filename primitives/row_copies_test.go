package primitives_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// expertKinds are the kinds of experts' weights.
var expertKinds = []string{"numbers", "q8_0", "q4_k", "mxfp4", "f8", "affine", "rows in f8"}

// kinds is a layer of gated experts, 256 wide, with weights of a kind, for rows of type d. With
// copies, there are as many copies of the experts. With grad, the results are the layer's and
// the gradients of what has some.
type kinds struct {
	kind              string
	d                 graph.DType
	tokens, k, copies int
	grad              bool
	layer             primitives.PrepareOp
}

func (c kinds) String() string {
	return fmt.Sprintf("%s of %s, %d tokens, %d copies, gradient %v, %+v", c.kind, c.d, c.tokens, c.copies, c.grad, c.layer)
}

func (c kinds) program(t *testing.T, s spread) *graph.Program {
	const wide = 256
	l := c.layer
	l.Axis, l.Exchange = s.axis, s.exchange
	return trace(t, func(tr *graph.Tracer) []*graph.Value {
		x, w := tr.Input("x", c.d, c.tokens, wide), tr.Input("w", c.d, c.tokens, c.k)
		r := primitives.Prepare(l, tr.Input("idx", graph.I32, c.tokens, c.k))
		wrt := []*graph.Value{x, w}
		own := func(v *graph.Value) *graph.Value { return v }
		if c.copies > 0 {
			of := tr.Input("rcopies", graph.I32, c.copies)
			r = primitives.Copies(r, of)
			own = func(v *graph.Value) *graph.Value {
				return primitives.Gather(primitives.ShardingConstraint(v), primitives.ShardingConstraint(of, s.axisName()), 0)
			}
		}
		input := func(name string, d graph.DType, shape ...int) *graph.Value {
			v := tr.Input("k"+name, d, append([]int{l.Experts}, shape...)...)
			if d == c.d && c.kind != "affine" {
				wrt = append(wrt, v)
			}
			return own(v)
		}
		rows, rw := primitives.DispatchWeighted(r, x, w)
		if c.kind == "rows in f8" {
			rows = primitives.DispatchF8(r, x, graph.F8_E4M3)
		}
		product := func(x *graph.Value, name string) *graph.Value {
			switch c.kind {
			case "numbers", "rows in f8":
				return primitives.GroupedMatMul(r, x, input(name, c.d, wide, wide))
			case "f8":
				return primitives.GroupedScaledMatMul(r, x, input(name, graph.F8_E4M3, wide, wide), input(name+"s", graph.F32, wide/128, wide/128))
			case "affine":
				return primitives.GroupedAffineMatMul(r, x, input(name, graph.U32, wide, wide/8), input(name+"s", c.d, wide, wide/64), input(name+"b", c.d, wide, wide/64), 4, 64)
			}
			d, err := graph.ParseDType(c.kind)
			require.NoError(t, err)
			return primitives.GroupedMatMulTransposed(r, x, input(name, d, wide, wide))
		}
		y := weighted(product(primitives.SwiGLU(product(rows, "gate"), product(rows, "up")), "down"), rw)
		out := primitives.Combine(r, y)
		if c.kind == "rows in f8" {
			out = primitives.CombineF8(r, y, graph.F8_E5M2)
		}
		if !c.grad {
			return []*graph.Value{out}
		}
		ct := tr.Input("ct", out.Type.DType, out.Type.Shape...)
		return append([]*graph.Value{out}, vjp.Backward([]*graph.Value{out}, []*graph.Value{ct}, wrt)...)
	})
}

// inputs are the program's, without copies.
func (c kinds) inputs(t *testing.T) arrays {
	r, in := rng(c.tokens), arrays{}
	for _, v := range c.program(t, spread{}).In {
		switch {
		case v.Name == "idx":
			idx := make([]int32, c.tokens*c.k)
			for i := range idx {
				idx[i] = int32(r.IntN(c.layer.Experts+1) - 1)
			}
			in["idx"] = ids(idx, c.tokens, c.k)
		case v.Name == "rcopies":
		case v.Type.DType == graph.U32 || v.Type.DType.IsF8():
			in[v.Name] = someCodes(r, v.Type)
		default:
			in[v.Name] = uniform(-1, 1)(r, v.Type)
		}
	}
	return in
}

// someCodes returns random words, or random 8-bit floats that are finite.
func someCodes(r *rand.Rand, t graph.Type) array.Array {
	a := array.New(t)
	for i := range a.Bytes() {
		a.Bytes()[i] = byte(r.Uint32())
		if t.DType.IsF8() {
			a.Bytes()[i] &= 0xb7
		}
	}
	return a
}

// The kernels of experts read the rows of tokens through an index, forward and backward, whatever
// the weights and the rows are: nothing copies a row for each choice. The bits are those of the
// program as it is written, with rows in expert order. Each layer is on one rank, and in turn on one
// of several meshes. Without -every it is a fifth of them, of all kinds, in turn.
func TestRowsAreNotCopied(t *testing.T) {
	several := []spread{{mesh: "ep=2", tokens: "ep"}, {mesh: "ep=2", tokens: "ep", exchange: ep.Sum}, {mesh: "ep=3"}}
	turn := 0
	for _, kind := range expertKinds {
		for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.F64} {
			for _, c := range []kinds{
				{tokens: 21, k: 3, layer: primitives.PrepareOp{Experts: 5}},
				{tokens: 21, k: 3, layer: primitives.PrepareOp{Experts: 5, Capacity: 7, Align: 4}},
				{tokens: 1, k: 4, layer: primitives.PrepareOp{Experts: 5}},
				{tokens: 150, k: 2, layer: primitives.PrepareOp{Experts: 2}},
			} {
				c.kind, c.d = kind, d
				for _, c.grad = range []bool{false, true} {
					if turn++; !*every && turn%5 != 0 {
						continue
					}
					meshes := []spread{{}, several[turn%len(several)]}
					t.Run(c.String(), func(t *testing.T) {
						in := c.inputs(t)
						for _, s := range meshes {
							p := c.program(t, s)
							cfg := s.config(t, p)
							plan, err := gomoe.Compile(t.Context(), p, cfg)
							require.NoError(t, err)
							for _, in := range plan.Instrs {
								if in.Name() == "ep_place" && !c.copies64(kind, d) {
									t.Fatalf("%s copies rows in expert order\n%s", s, plan)
								}
							}
							got := s.run(t, p, in)
							cfg.Optimize = gomoe.Off
							want, err := gomoe.Run(t.Context(), p, cfg, in.only(p))
							require.NoError(t, err)
							for i := range want {
								sameBits(t, fmt.Sprintf("%s: result %d", s, i), got[i], want[i])
							}
						}
					})
				}
			}
		}
	}
}

// copies64 reports whether rows of f64 are copied: products with blocks convert these to numbers.
func (kinds) copies64(kind string, d graph.DType) bool {
	return d == graph.F64 && slices.Contains([]string{"q8_0", "q4_k", "mxfp4"}, kind)
}

// Experts of every kind of weights may have copies on several ranks. The forward pass has the bits
// of one rank without copies, and the gradients are close to its.
func TestContractCopiesOfKinds(t *testing.T) {
	for _, kind := range expertKinds {
		for _, d := range []graph.DType{graph.F32, graph.BF16} {
			for _, grad := range []bool{false, true} {
				plain := kinds{kind: kind, d: d, tokens: 17, k: 3, grad: grad, layer: primitives.PrepareOp{Experts: 5}}
				in := plain.inputs(t)
				want := spread{}.run(t, plain.program(t, spread{}), in)
				for ranks, copies := range map[int]ep.Copies{1: {0, 1, 2, 3, 4, 2, 2}, 2: {0, 1, 2, 3, 4, 2, 0}, 3: {2, 0, 2, 1, 3, 4, 2, 0}} {
					copied := plain
					copied.copies = len(copies)
					in["rcopies"] = ids(copies, len(copies))
					for _, s := range []spread{{mesh: fmt.Sprint("ep=", ranks), tokens: "ep"}, {mesh: fmt.Sprint("ep=", ranks)}} {
						t.Run(fmt.Sprint(copied, " ", s), func(t *testing.T) {
							got := s.run(t, copied.program(t, s), in)
							sameBits(t, "out", got[0], want[0])
							for i := 1; i < len(want); i++ {
								tol := 1e-5
								if d == graph.BF16 {
									tol = 3e-2
								}
								if diff, at := array.MaxDiff(got[i], want[i]); !(diff <= tol*max(1, largest(want[i]))) {
									t.Errorf("gradient %d: element %d differs by %g of at most %g", i, at, diff, largest(want[i]))
								}
							}
						})
					}
				}
			}
		}
	}
}
