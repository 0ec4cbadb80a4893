package sharding_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// arg parses an argument as programs print it, such as 16@a.b,8{+c}. ~ behind the first
// dimension means ragged rows in the order of routing r, and ~~ in that of s.
func arg(t *testing.T, text string) (graph.Type, sharding.Spec) {
	t.Helper()
	dims, sums, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{+")
	typ, s := graph.Type{DType: graph.F32}, sharding.Spec{}
	if sums != "" {
		s.Pending = strings.Split(sums, "+")
	}
	if dims == "" {
		return typ, s
	}
	for _, d := range strings.Split(dims, ",") {
		switch strings.Count(d, "~") {
		case 1:
			s.Ragged = rows
		case 2:
			s.Ragged = otherRows
		case 3:
			s.Ragged = splitRows
		}
		size, axes, _ := strings.Cut(strings.TrimRight(d, "~"), "@")
		n := 0
		for _, c := range size {
			n = 10*n + int(c-'0')
		}
		typ.Shape = append(typ.Shape, n)
		var at []string
		if axes != "" {
			at = strings.Split(axes, ".")
		}
		s.Dims = append(s.Dims, at)
	}
	return typ, s
}

var (
	rows      = &sharding.Ragged{Routing: &graph.Value{}, Rows: 4}
	otherRows = &sharding.Ragged{Routing: &graph.Value{}, Rows: 4}
	splitRows = &sharding.Ragged{Routing: rows.Routing, Rows: 4, Tokens: []string{"a"}}
)

func TestPlace(t *testing.T) {
	const w = sharding.Whole
	matmul := sharding.Factors{In: [][]int{{0, 1}, {1, 2}}, Out: [][]int{{0, 2}}, Sum: []int{1}, RowWise: true, Linear: sharding.LinearEach}
	outer := sharding.Factors{In: [][]int{{0, 1}, {0, 2}}, Out: [][]int{{1, 2}}, Sum: []int{0}}
	crossed := sharding.Factors{In: [][]int{{0, 1}, {2, 0}}, Out: [][]int{{1, 2}}, Sum: []int{0}}
	binary := func(l sharding.Linearity) sharding.Factors {
		return sharding.Elementwise(graph.T(graph.F32, 8, 8), 2, 1, l)
	}
	transpose := sharding.Factors{In: [][]int{{0, 1}}, Out: [][]int{{1, 0}}, RowWise: true}
	softmax := sharding.Factors{In: [][]int{{0, w}}, Out: [][]int{{0, w}}, RowWise: true}
	for _, c := range []struct {
		name string
		f    sharding.Factors
		in   string // arguments with ; between
		want string // arguments -> results, or the error
	}{
		{"rows of one routing over other axes", binary(sharding.NotLinear), "8~,8; 8@a~,8", `dimension 0 of argument 0 and dimension 0 of argument 1 are in expert order over the axes "" and "a"; bring the tokens to one placement with sharding_constraint before they are dispatched`},
		{"whole", matmul, "8,8; 8,8", "8,8; 8,8 -> 8,8"},
		{"rows", matmul, "8@a,8; 8,8", "8@a,8; 8,8 -> 8@a,8"},
		{"columns", matmul, "8,8; 8,8@a", "8,8; 8,8@a -> 8,8@a"},
		{"both", matmul, "8@a,8; 8,8@b", "8@a,8; 8,8@b -> 8@a,8@b"},
		{"contracted", matmul, "8,8@a; 8@a,8", "8,8@a; 8@a,8 -> 8,8{+a}"},
		{"contracted, one takes its part", matmul, "8,8@a; 8,8", "8,8@a; 8@a,8 -> 8,8{+a}"},
		{"contracted, more on one side", matmul, "8,8@a; 8@a.b,8", "8,8@a.b; 8@a.b,8 -> 8,8{+a+b}"},
		{"contracted over both, mesh order", matmul, "8,8@b.a; 8,8", "8,8@b.a; 8@b.a,8 -> 8,8{+a+b}"},
		{"contracted, in conflict", matmul, "8,8@a; 8@b,8", "dimension 1 of argument 0 is split over a and dimension 0 of argument 1 over b; bring one to the other with sharding_constraint"},
		{"one axis twice", matmul, "8@a,8; 8,8@a", "dimension 0 of argument 0 and dimension 1 of argument 1 are both split over a; gather one of them with sharding_constraint"},

		{"pending passes a product", matmul, "8,8{+a}; 8,8", "8,8{+a}; 8,8 -> 8,8{+a}"},
		{"pending and contracted", matmul, "8,8@b{+a}; 8,8", "8,8@b{+a}; 8@b,8 -> 8,8{+a+b}"},
		{"pending in both", matmul, "8,8{+a}; 8,8{+b}", "8,8; 8,8 -> 8,8"},
		{"pending over an axis in use", matmul, "8,8{+a}; 8,8@a", "8,8; 8,8@a -> 8,8@a"},

		{"sum of two", binary(sharding.LinearTogether), "8,8{+a}; 8,8{+a}", "8,8{+a}; 8,8{+a} -> 8,8{+a}"},
		{"sum of one and a whole", binary(sharding.LinearTogether), "8,8{+a}; 8,8", "8,8; 8,8 -> 8,8"},
		{"sum over different axes", binary(sharding.LinearTogether), "8,8{+a}; 8,8{+b}", "8,8; 8,8 -> 8,8"},
		{"sum over one and two axes", binary(sharding.LinearTogether), "8,8{+a+b}; 8,8{+a}", "8,8; 8,8 -> 8,8"},
		{"sum of split ones", binary(sharding.LinearTogether), "8@b,8{+a}; 8,8{+a}", "8@b,8{+a}; 8@b,8{+a} -> 8@b,8{+a}"},
		{"product, second pending", binary(sharding.LinearEach), "8,8; 8,8{+a}", "8,8; 8,8{+a} -> 8,8{+a}"},
		{"product, both pending", binary(sharding.LinearEach), "8,8{+a}; 8,8{+a}", "8,8; 8,8 -> 8,8"},
		{"quotient, first pending", binary(sharding.LinearFirst), "8,8{+a}; 8,8", "8,8{+a}; 8,8 -> 8,8{+a}"},
		{"quotient, second pending", binary(sharding.LinearFirst), "8,8; 8,8{+a}", "8,8; 8,8 -> 8,8"},
		{"quotient, both pending", binary(sharding.LinearFirst), "8,8{+a}; 8,8{+a}", "8,8; 8,8 -> 8,8"},
		{"maximum", binary(sharding.NotLinear), "8,8{+a}; 8,8{+a}", "8,8; 8,8 -> 8,8"},

		{"whole dimension split", softmax, "8,8@a", "dimension 1 of argument 0 is split over a and must be whole here; gather it with sharding_constraint"},
		{"other dimension split", softmax, "8@a,8", "8@a,8 -> 8@a,8"},

		{"ragged rows", softmax, "8@a~,8", "8@a~,8 -> 8@a~,8"},
		{"ragged rows of two", binary(sharding.LinearTogether), "8@a~,8; 8@a~,8", "8@a~,8; 8@a~,8 -> 8@a~,8"},
		{"ragged with plain", binary(sharding.LinearTogether), "8@a~,8; 8@a,8", "dimension 0 of argument 0 and dimension 0 of argument 1: one is in expert order and the other is not; dispatch it with ep_dispatch, or combine first"},
		{"ragged of two routings", binary(sharding.LinearTogether), "8@a~,8; 8@a~~,8", "dimension 0 of argument 0 and dimension 0 of argument 1 are in the order of different routings; combine first"},
		{"ragged of whole and of split tokens", binary(sharding.LinearTogether), "8@a~,8; 8@a~~~,8", `dimension 0 of argument 0 and dimension 0 of argument 1 are rows of tokens that are split over "" and over "a"; bring the tokens to one placement with sharding_constraint before they are dispatched`},
		{"ragged times whole weights", matmul, "8@a~,8; 8,8", "8@a~,8; 8,8 -> 8@a~,8"},
		{"ragged rows summed", outer, "8@a~,8; 8@a~,8", "8@a~,8; 8@a~,8 -> 8,8{+a}"},
		{"ragged rows against columns", crossed, "8@a~,8; 8,8", "dimension 0 of argument 0 is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first"},
		{"ragged moved off the rows", transpose, "8@a~,8", "dimension 0 of argument 0 is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first"},
		{"ragged must be whole", sharding.Factors{In: [][]int{{w, w}}, Out: [][]int{{w, w}}}, "8@a~,8", "argument 0 is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first"},
		{"ragged without row-wise", sharding.Factors{In: [][]int{{0, 1}}, Out: [][]int{{0, 1}}}, "8@a~,8", "dimension 0 of argument 0 is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first"},
		{"no arguments", sharding.Factors{Out: [][]int{{0}}, Linear: sharding.LinearTogether}, "", "-> 8"},
	} {
		ctx := &sharding.Context{Mesh: mesh(t, "a=2,b=2"), Eqn: &graph.Eqn{}}
		if c.in != "" {
			for _, text := range strings.Split(c.in, "; ") {
				typ, s := arg(t, text)
				ctx.Eqn.In = append(ctx.Eqn.In, &graph.Value{Type: typ})
				ctx.In = append(ctx.In, s)
			}
		}
		for _, dims := range c.f.Out {
			v := &graph.Value{Type: graph.Type{DType: graph.F32}}
			for range dims {
				v.Type.Shape = append(v.Type.Shape, 8)
			}
			ctx.Eqn.Out = append(ctx.Eqn.Out, v)
		}
		dec, err := ctx.Place(c.f)
		got := fmtErr(err)
		if err == nil {
			format := func(specs []sharding.Spec) string {
				var parts []string
				for _, s := range specs {
					shape := make([]int, len(s.Dims))
					for i := range shape {
						shape[i] = 8
					}
					f := s.Format(graph.Type{DType: graph.F32, Shape: shape})
					parts = append(parts, strings.NewReplacer("f32[", "", "]", "").Replace(f))
				}
				return strings.Join(parts, "; ")
			}
			got = strings.TrimSpace(format(dec.In) + " -> " + format(dec.Out))
		}
		if got != c.want {
			t.Errorf("%s: %s\n got %s\nwant %s", c.name, c.in, got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	const w = sharding.Whole
	f := sharding.Rows(1, []int{3, -1, 2}, []int{3, 1})
	require.Equal(t, sharding.Factors{In: [][]int{{0, w, w}, {w}, {0, w}}, Out: [][]int{{0, w, w}, {0}}, RowWise: true}, f)
	require.False(t, sharding.Rows(0, []int{2}, []int{2}).RowWise)
}
