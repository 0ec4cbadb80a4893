package kernels_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/vjp"
)

// Products by tensor operations are near the host's, in all layouts, for few rows and many, with edges,
// batches and several sums.
func TestTensorProducts(t *testing.T) {
	for _, c := range []struct{ x, y, params string }{
		{"bf16[70,100]", "bf16[100,130]", "lhs_contract=[1] rhs_contract=[0]"},
		{"f16[70,100]", "f16[66,100]", "lhs_contract=[1] rhs_contract=[1]"},
		{"bf16[100,72]", "bf16[68,100]", "lhs_contract=[0] rhs_contract=[1]"},
		{"f16[33,9]", "f16[33,64]", "lhs_contract=[0] rhs_contract=[0]"},
		{"bf16[3,20,12]", "bf16[3,12,9]", "lhs_contract=[2] rhs_contract=[1] lhs_batch=[0] rhs_batch=[0]"},
		{"f16[40,0]", "f16[0,50]", "lhs_contract=[1] rhs_contract=[0]"},
	} {
		t.Run(c.x+c.y, func(t *testing.T) {
			p, err := gomoe.Parse("t", dotText(c.x, c.y, c.params))
			require.NoError(t, err)
			metaltest.CheckTensors(t, p, gomoe.Config{}, source().of(t, p), metaltest.Options{Instructions: []string{"dot_general"}})
		})
	}
}

// So are a layer of experts and its gradients, with rows in order and through an index, gaps, and experts
// without rows.
func TestTensorLayer(t *testing.T) {
	for i, c := range []struct {
		d                            graph.DType
		tokens, hidden, width, align int
		transpose                    bool
	}{
		{graph.BF16, 140, 36, 40, 8, true},
		{graph.F16, 40, 24, 33, 1, false},
	} {
		p := throughLayer(t, c.d, c.tokens, c.hidden, c.width, c.align, c.transpose)
		e := experts{tokens: c.tokens, experts: 4}
		in := source()
		in.set["idx"] = e.route(func(i int) int { return i % 2 * (1 + i%3) })
		back, err := vjp.Grad(p, "x", "gate", "down")
		require.NoError(t, err)
		for name, p := range map[string]*graph.Program{"forward": p, "gradient": back} {
			want := []string{"grouped_swiglu"}
			if name == "gradient" {
				want = []string{"grouped_matmul", "grouped_outer"}
			}
			t.Run(fmt.Sprint(i, name), func(t *testing.T) {
				metaltest.CheckTensors(t, p, gomoe.Config{}, in.of(t, p), metaltest.Options{Instructions: want})
			})
		}
	}
}

// One tile is for all products of 16 bits but those of a matrix with few rows.
func TestTensorTile(t *testing.T) {
	for _, c := range []struct{ x, y, function string }{
		{"bf16[100,40]", "bf16[40,64]", "dot_general_tensor_bf16_nn"},
		{"bf16[20,40]", "bf16[40,64]", "dot_general_tensor_bf16_nn"},
		{"f16[5,40]", "f16[40,64]", "dot_general_tensor_f16_nn"},
		{"f16[4,40]", "f16[40,64]", "dot_matvec_across_4"},
		{"f32[100,40]", "f32[40,64]", "dot_general_many_f32"},
	} {
		in, _ := built(t, dotText(c.x, c.y, "lhs_contract=[1] rhs_contract=[0]"), gomoe.Config{}, "dot_general")
		in.Tensors = true
		p, _, err := kernels.Build(in)
		require.NoError(t, err)
		require.Equal(t, c.function, p.Launches[0].Function)
	}
}
