package optimize

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
)

// mul is an operation of another package with the name of the library's product.
type mul struct{}

func (mul) Name() string                                { return "mul" }
func (mul) Infer(in []graph.Type) ([]graph.Type, error) { return in[:1], nil }

func TestOtherPrimitives(t *testing.T) {
	p, err := graph.Trace("p", func(tr *graph.Tracer) []*graph.Value {
		one := graph.FullOp{Value: 1, DType: graph.F32}
		return []*graph.Value{tr.Apply(mul{}, tr.Input("x", graph.F32), tr.Apply(one)[0])[0]}
	})
	require.NoError(t, err)
	q, err := identities(p)
	require.NoError(t, err)
	require.Equal(t, "mul", q.Out[0].Def.Prim.Name())
}

func TestIdentities(t *testing.T) {
	unchanged := func(name, body string) rewrites { return rewrites{name, body, body} }
	golden(t, identities, []rewrites{
		{"times one", `
			a f32[2,3] = full() value=1 dtype=f32 shape=[2,3]
			b f32[2,3] = mul(x, a)
			c f32[2,3] = mul(a, b)
			d f32[2,3] = div(c, a)
			e f32[2,3] = exp(d)
			return e`, `
			a f32[2,3] = full() value=1 dtype=f32 shape=[2,3]
			e f32[2,3] = exp(x)
			return e`},
		{"twice negated", `
			a f32[2,3] = neg(x)
			b f32[2,3] = neg(a)
			c f32[2,3] = exp(b)
			return c`, `
			a f32[2,3] = neg(x)
			c f32[2,3] = exp(x)
			return c`},
		{"transposes", `
			a f32[3,2] = transpose(x) permutation=[1,0]
			b f32[2,3] = transpose(a) permutation=[1,0]
			c f32[2,3] = exp(b)
			d f32[2,3] = transpose(c) permutation=[0,1]
			e f32[2,3] = neg(d)
			return e`, `
			a f32[3,2] = transpose(x) permutation=[1,0]
			c f32[2,3] = exp(x)
			e f32[2,3] = neg(c)
			return e`},
		{"two transposes are one", `
			a f32[2,1,3] = reshape(x) shape=[2,1,3]
			b f32[3,2,1] = transpose(a) permutation=[2,0,1]
			c f32[1,2,3] = transpose(b) permutation=[2,1,0]
			d f32[2,1,3] = transpose(b) permutation=[1,2,0]
			e f32[2,1,3] = exp(d)
			return c, e`, `
			a f32[2,1,3] = reshape(x) shape=[2,1,3]
			b f32[3,2,1] = transpose(a) permutation=[2,0,1]
			c f32[1,2,3] = transpose(a) permutation=[1,0,2]
			e f32[2,1,3] = exp(a)
			return c, e`},
		{"to itself", `
			a f32[2,3] = reshape(x) shape=[2,3]
			b f32[2,3] = convert_element_type(a) dtype=f32
			c f32[2,3] = stop_gradient(b)
			d f32[2,3] = add_any(c)
			e f32[2,3] = exp(d)
			return e`, `
			e f32[2,3] = exp(x)
			return e`},
		{"placed twice alike", `
			a f32[2,3] = place_like(x, y)
			b f32[2,3] = place_like(a, y)
			c f32[2,3] = place_like(b, x)
			d f32[2,3] = exp(c)
			return d`, `
			a f32[2,3] = place_like(x, y)
			c f32[2,3] = place_like(a, x)
			d f32[2,3] = exp(c)
			return d`},
		unchanged("sums with zero", `
			a f32[2,3] = full() dtype=f32 shape=[2,3]
			b f32[2,3] = add(x, a)
			c f32[2,3] = sub(x, a)
			return b, c`),
		unchanged("times zero", `
			a f32[2,3] = full() dtype=f32 shape=[2,3]
			b f32[2,3] = mul(x, a)
			return b`),
		unchanged("narrowed and widened", `
			a f32[2,3] = convert_element_type(h) dtype=f32
			b bf16[2,3] = convert_element_type(a) dtype=bf16
			return b`),
		unchanged("one divided", `
			a f32[2,3] = full() value=1 dtype=f32 shape=[2,3]
			b f32[2,3] = div(a, x)
			return b`),
		unchanged("integers", `
			a i32[2,3] = full() value=1 dtype=i32 shape=[2,3]
			b i32[2,3] = div(n, a)
			c i32[2,3] = convert_element_type(b) dtype=i32
			return c`),
		unchanged("the zero that placement rules know", `
			a f32[2,3] = full() dtype=f32 shape=[2,3]
			b f32[2,3] = stop_gradient(a)
			c f32[2,3] = exp(b)
			return c`),
		unchanged("a result keeps its name", `
			a f32[2,3] = stop_gradient(x)
			return a`),
		unchanged("a function of it", `
			a f32[2,3] = exp(x)
			b f32[2,3] = neg(a)
			return b`),
	})
}
