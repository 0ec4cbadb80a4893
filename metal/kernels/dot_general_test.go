package kernels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
)

// dotText is a program of one product.
func dotText(x, y, params string) string {
	return fmt.Sprintf("program p(x %s, y %s) {\n\tz = dot_general(x, y) %s\n\treturn z\n}", x, y, params)
}

// Products of matrices that fill tiles, that do not, and that have few rows or columns,
// from either order of either operand.
func TestDotGeneralMatrices(t *testing.T) {
	r := source()
	for i, d := range []graph.DType{graph.F32, graph.BF16, graph.F16} {
		for j, s := range [][3]int{{1, 1, 1}, {1, 100, 40}, {31, 33, 100}, {100, 31, 33}, {100, 9, 36}, {64, 64, 16}, {65, 68, 24}, {40, 3, 0}, {0, 3, 5}} {
			m, n, k := s[0], s[1], s[2]
			xs, ys := [2][2]int{{m, k}, {k, m}}, [2][2]int{{k, n}, {n, k}}
			for order := range 4 {
				if (order+j)%3 != i && m*n*k > 0 { // every size has every order, of one type
					continue
				}
				a, b := xs[order%2], ys[order/2]
				check(t, dotText(fmt.Sprintf("%s[%d,%d]", d, a[0], a[1]), fmt.Sprintf("%s[%d,%d]", d, b[0], b[1]),
					fmt.Sprintf("lhs_contract=[%d] rhs_contract=[%d]", 1-order%2, order/2)), gomoe.Config{}, r, "dot_general")
			}
		}
	}
}

// Dimensions of batches, several that are summed over, and layouts that no one stride
// describes; element types that differ; integers, which wrap.
func TestDotGeneralLayouts(t *testing.T) {
	r := source()
	for _, l := range []struct{ x, y, params string }{
		{"f32[6]", "f32[6]", "lhs_contract=[0] rhs_contract=[0]"},
		{"f32[3]", "f32[5]", "lhs_contract=[] rhs_contract=[]"},
		{"f32[3,20,12]", "f32[3,12,9]", "lhs_contract=[2] rhs_contract=[1] lhs_batch=[0] rhs_batch=[0]"},
		{"f32[2,10,3,8]", "f32[2,14,3,8]", "lhs_contract=[3] rhs_contract=[3] lhs_batch=[0,2] rhs_batch=[0,2]"}, // attention's scores
		{"f32[10,2,6]", "f32[2,6,9]", "lhs_contract=[2] rhs_contract=[1] lhs_batch=[1] rhs_batch=[0]"},
		{"f32[3,2,10,7]", "f32[2,14,3,7]", "lhs_contract=[3] rhs_contract=[3] lhs_batch=[1,0] rhs_batch=[0,2]"},
		{"bf16[2,35,20]", "bf16[2,35,36]", "lhs_contract=[0,1] rhs_contract=[0,1]"},                   // weights' gradient
		{"f32[4,6,5]", "f32[6,7,4]", "lhs_contract=[0,1] rhs_contract=[2,0]"},                         // sums over two strides
		{"f32[2,3,4,5]", "f32[5,3,6]", "lhs_contract=[1,3] rhs_contract=[1,0]"},                       // sums and rows
		{"f32[6,40,5]", "f32[3,40,4]", "lhs_contract=[1] rhs_contract=[1]"},                           // rows and columns
		{"f32[3,2,2,2,5]", "f32[2,2,3,5,2]", "lhs_contract=[1,4,0] rhs_contract=[0,3,2]"},             // sums over three
		{"f32[0,4,3]", "f32[4,0,9]", "lhs_contract=[0,1] rhs_contract=[1,0]"},                         // over nothing
		{"f16[36,20]", "f16[20,70]", "lhs_contract=[1] rhs_contract=[0] dtype=f32"},                   // narrow
		{"bf16[36,20]", "bf16[20,70]", "lhs_contract=[1] rhs_contract=[0] dtype=f32"},                 //
		{"f16[36,20]", "bf16[20,70]", "lhs_contract=[1] rhs_contract=[0] dtype=bf16"},                 // two types
		{"bf16[5,20]", "f32[20,70]", "lhs_contract=[1] rhs_contract=[0] dtype=f32"},                   //
		{"f32[90,20]", "f16[20,5]", "lhs_contract=[1] rhs_contract=[0] dtype=f16"},                    // and three
		{"i32[7,300]", "i32[300,40]", "lhs_contract=[1] rhs_contract=[0]"},                            //
		{"u32[3,5,4]", "u32[4,3,6]", "lhs_contract=[2] rhs_contract=[0] lhs_batch=[0] rhs_batch=[1]"}, //
		{"i32[2,0]", "i32[0,3]", "lhs_contract=[1] rhs_contract=[0]"},
	} {
		check(t, dotText(l.x, l.y, l.params), gomoe.Config{}, r, "dot_general")
	}
}

// What is past an operand's edges is in no product: neither the numbers of the next row,
// nor those of the next batch index, though they are not finite.
func TestDotGeneralEdges(t *testing.T) {
	nan := array.New(graph.T(graph.F32, 3, 9, 5))
	x := array.Data[float32](nan)
	for i := range x {
		x[i] = float32(i % 7)
		if b, j := i/45, i%45/5; b == 1 || j == 7 {
			x[i] /= 0 * x[i]
		}
	}
	in := source()
	in.set["x"] = nan
	check(t, dotText("f32[3,9,5]", "f32[3,5,3]", "lhs_contract=[2] rhs_contract=[1] lhs_batch=[0] rhs_batch=[0]"), gomoe.Config{}, in, "dot_general")
}

// The products that the host has to do say why.
func TestDotGeneralRefuses(t *testing.T) {
	for _, l := range []struct{ x, y, params, why string }{
		{"f64[2,3]", "f64[3,2]", "lhs_contract=[1] rhs_contract=[0]", "no kernel for elements of f64"},
		{"f32[2,3]", "f32[3,2]", "lhs_contract=[1] rhs_contract=[0] dtype=f64", "no kernel for elements of f64"},
		{"i64[2,3]", "i64[3,2]", "lhs_contract=[1] rhs_contract=[0]", "no kernel for products of i64"},
		{"u8[2,3]", "u8[3,2]", "lhs_contract=[1] rhs_contract=[0]", "no kernel for products of u8"},
		{"u8[2,3]", "u8[3,2]", "lhs_contract=[1] rhs_contract=[0] dtype=i32", "a product of u8 and u8 as i32"},
		{"f32[2,2,2,2,2,3]", "f32[2,2,2,2,2,3]", "lhs_contract=[0,1,2,3,4] rhs_contract=[4,3,2,1,0]", "it sums over 5 dimensions"},
		{"f32[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]", "f32[2,2]", "lhs_contract=[1] rhs_contract=[1] lhs_batch=[3] rhs_batch=[0]", ""},
		{"f32[2,3,2,3,2,3,2,3]", "f32[3,2,3,2,3,2,3]", "lhs_contract=[1,3] rhs_contract=[0,2] lhs_batch=[7,5] rhs_batch=[6,4]", "its matrices have 7 indices"},
	} {
		p, err := gomoe.Parse("t", dotText(l.x, l.y, l.params))
		require.NoError(t, err)
		plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: kernels.Metal{}})
		require.NoError(t, err)
		in := plan.Instrs[0]
		if in.On != (l.why == "") || !strings.HasPrefix(in.Why, l.why) {
			t.Errorf("%s: %s · %s: on %v, %q, want %q", l.params, l.x, l.y, in.On, in.Why, l.why)
		}
	}
}
