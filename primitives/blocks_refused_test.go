package primitives_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

func TestBlocksRefused(t *testing.T) {
	only := "weights in blocks, which only matrix products take; convert it with convert_element_type dtype=f32"
	for _, c := range []struct{ src, want string }{
		{"(x q4_k[2,128]) {\n return x\n}", "input x: q4_k[2,128] has last dimension 128, want a multiple of 256, which are one block of q4_k"},
		{"(x q8_0[]) {\n return x\n}", "input x: q8_0[] is a scalar; blocks of 32 elements need a last dimension"},
		{"(x q8_0[2,32]) {\n y = neg(x)\n return y\n}", "argument 0 is q8_0[2,32], " + only},
		{"(x q8_0[2,32]) {\n y = transpose(x) permutation=[1,0]\n return y\n}", only},
		{"(x q8_0[2,32]) {\n y = reshape(x) shape=[64]\n return y\n}", only},
		{"() {\n y = full() value=1 dtype=q8_0 shape=[32]\n return y\n}", "the result would be q8_0[32], weights in blocks; make it f32 and convert it with convert_element_type dtype=q8_0"},
		{"(x i32[2,32]) {\n y = convert_element_type(x) dtype=q8_0\n return y\n}", "i32 to q8_0: weights in blocks are made of floats and make floats; convert to f32 between"},
		{"(x q8_0[2,32]) {\n y = convert_element_type(x) dtype=bool\n return y\n}", "q8_0 to bool: weights in blocks are made of floats"},
		{"(x f32[2,33]) {\n y = convert_element_type(x) dtype=q8_0\n return y\n}", "the result q8_0[2,33] has last dimension 33, want a multiple of 32"},
		{"(x q8_0[2,32], y q8_0[2,32]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[1]\n return z\n}", "element types q8_0 and q8_0, want a float type beside weights in blocks"},
		{"(x i32[2,32], y q8_0[2,32]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[1]\n return z\n}", "element types i32 and q8_0, want a float type beside weights in blocks"},
		{"(x f32[2,32], y q8_0[2,32]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[1] dtype=i32\n return z\n}", "with dtype=i32, want a float type"},
		{"(x f32[2,32], y f32[32,32]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[1] dtype=q8_0\n return z\n}", "dtype=q8_0 is for weights; want a float type"},
		{"(x q8_0[4,32], w f32[4,8,32], r i32[2,2,2]) {\n z = grouped_matmul(x, w, r) transpose=true\n return z\n}", "element type q8_0, want f64, f32, bf16 or f16"},
	} {
		if _, err := gomoe.Parse("refused", "program p"+c.src); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v, want %s", c.src, err, c.want)
		}
	}
}

// Only primitives that implement graph.Blocks take weights in blocks.
func TestBlocksRefusedByOthers(t *testing.T) {
	require.Positive(t, refusedButBy[graph.Blocks](t, graph.Q8_0, "weights in blocks"))
}

// refusedButBy checks that primitives that do not implement I refuse arguments of type d, with an error that has a
// text, and returns how many implement it.
func refusedButBy[I any](t *testing.T, d graph.DType, want string) (others int) {
	t.Helper()
	for _, p := range append(primitives.All(), graph.AddAnyOp{}) {
		if _, ok := p.(I); ok {
			others++
			continue
		}
		for n := 1; n <= 4; n++ {
			_, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
				in := make([]*graph.Value, n)
				for i := range in {
					in[i] = tr.Input(fmt.Sprintf("x%d", i), d, 4, 32)
				}
				return graph.Apply(p, in...)
			})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %d arguments of %s: %v", p.Name(), n, d, err)
			}
		}
	}
	return others
}

func TestBlocksHaveNoGradient(t *testing.T) {
	p, err := gomoe.Parse("g", "program p(x f32[2,32], w q8_0[4,32]) {\n y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]\n z = reduce_sum(y) axes=[0,1]\n return z\n}")
	require.NoError(t, err)
	if _, err := vjp.Grad(p, "w"); err == nil || !strings.Contains(err.Error(), "input w is q8_0[4,32]; only float types have a gradient: x") {
		t.Errorf("gradient with respect to blocks: %v", err)
	}
}

// Rows of a table in blocks are rows of the table as numbers, on every mesh, and the table
// needs no gradient for that of what is computed from them.
func TestEmbeddingOfBlocks(t *testing.T) {
	for _, d := range quant.Types() {
		n, _ := d.Block()
		p, err := gomoe.Parse("rows", fmt.Sprintf("program p(w %s[6,%d], ids i32[4,3], s f32[4,3,%d]) {\n x = embedding(w, ids)\n y = convert_element_type(x) dtype=f32\n z = mul(y, s)\n v = reduce_sum(z) axes=[0,1,2]\n return v, y\n}", d, 2*n, 2*n))
		require.NoError(t, err)
		in := blockInputs(p, 2)
		ids := []int32{5, 0, 3, 3, 1, 2, 4, 5, 0, 2, 1, 4}
		in["ids"], err = array.Of(ids, 4, 3)
		require.NoError(t, err)
		table := array.Data[float32](in["w"].As(graph.F32))
		g, err := vjp.Grad(p, "s")
		require.NoError(t, err)
		for mesh, place := range map[string]map[string]sharding.Spec{"": nil, "a=2": {"ids": sharding.Split("a")}, "b=2": {"w": sharding.Split("", "b")}, "a=2,b=2": {"w": sharding.Split("", "b"), "ids": sharding.Split("", "a")}} {
			m, err := sharding.ParseMesh(mesh)
			require.NoError(t, err)
			out, err := gomoe.Run(context.Background(), g, gomoe.Config{Mesh: m, Place: place}, in)
			require.NoError(t, err, "%s on %q", d, mesh)
			for i, id := range ids {
				want := table[int(id)*2*n:][:2*n]
				for k := 1; k <= 2; k++ { // the rows, and the gradient of what multiplies them
					if got := array.Data[float32](out[k])[i*2*n:][:2*n]; !slices.Equal(got, want) {
						t.Fatalf("%s on %q: row %d of result %d is not row %d of the table", d, mesh, i, k, id)
					}
				}
			}
		}
	}
}

func TestPlacementsCutBetweenBlocks(t *testing.T) {
	m, err := sharding.ParseMesh("a=2")
	require.NoError(t, err)
	p, err := gomoe.Parse("g", "program p(w q4_k[4,256]) {\n y = convert_element_type(w) dtype=f32\n return y\n}")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": sharding.Split("", "a")}})
	const want = "g:2: convert_element_type(q4_k[4,256@a]): dimension 1 of argument 0, q4_k[4,256], and dimension 1 of result 0, f32[4,256], do not divide alike over the 2 ranks of a, as blocks of q4_k are 256 elements; gather it with sharding_constraint, or split over ranks whose number divides both"
	if err == nil || err.Error() != want {
		t.Errorf("half a block per rank: %v, want %s", err, want)
	}
	// The placement of one argument would cut the other inside a block.
	p, err = gomoe.Parse("g", "program p(x f32[2,256], w q4_k[4,256]) {\n y = dot_general(x, w) lhs_contract=[1] rhs_contract=[1]\n return y\n}")
	require.NoError(t, err)
	_, err = gomoe.Compile(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("", "a")}})
	if err == nil || !strings.Contains(err.Error(), "blocks of q4_k are 256 elements") {
		t.Errorf("half a block per rank: %v", err)
	}
}

// Weights move between ranks in blocks.
func TestBlocksMove(t *testing.T) {
	m, err := sharding.ParseMesh("a=2,b=2")
	require.NoError(t, err)
	for i, from := range []string{"", "a", "_,a", "_,_,a", "a,b", "b,_,a", "_,_,a.b"} {
		for k, to := range []string{"_", "a", "_,b", "_,_,b", "b,a", "_,a,b", "_,_,b.a"} {
			shape := []string{"4,6,128", "3,5,160", "1,2,32"}[(i+k)%3] // the last two are cut unevenly
			p, err := gomoe.Parse("move", fmt.Sprintf("program p(w q8_0[%s]) {\n y = sharding_constraint(w) spec=%q\n return y\n}", shape, to))
			require.NoError(t, err)
			spec, err := sharding.ParseSpec(from)
			require.NoError(t, err)
			in := blockInputs(p, 1)
			out, err := gomoe.Run(context.Background(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"w": spec}}, in)
			require.NoError(t, err, "%s to %s", from, to)
			if !array.Equal(out[0], in["w"]) {
				t.Errorf("%s to %s changes the weights", from, to)
			}
		}
	}
}
