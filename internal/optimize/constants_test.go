package optimize

import "testing"

func TestConstants(t *testing.T) {
	unchanged := func(name, body string) rewrites { return rewrites{name, body, body} }
	golden(t, constants, []rewrites{
		{"arithmetic", `
			a f32[] = full() value=0.1 dtype=f32
			b f32[] = full() value=3 dtype=f32
			c f32[] = mul(a, b)
			d f32[] = neg(c)
			return d`, `
			a f32[] = full() value=0.1 dtype=f32
			b f32[] = full() value=3 dtype=f32
			c f32[] = full() value=0.30000001192092896 dtype=f32
			d f32[] = full() value=-0.30000001192092896 dtype=f32
			return d`},
		{"16 bits are rounded once", `
			a bf16[] = full() value=256 dtype=bf16
			b bf16[] = full() value=1 dtype=bf16
			c bf16[] = add(a, b)
			return c`, `
			a bf16[] = full() value=256 dtype=bf16
			b bf16[] = full() value=1 dtype=bf16
			c bf16[] = full() value=256 dtype=bf16
			return c`},
		{"a sum of cotangents", `
			a f32[] = full() value=2 dtype=f32
			b f32[] = full() value=3 dtype=f32
			c f32[] = add_any(a, b)
			return c`, `
			a f32[] = full() value=2 dtype=f32
			b f32[] = full() value=3 dtype=f32
			c f32[] = full() value=5 dtype=f32
			return c`},
		{"integers wrap", `
			a u8[] = full() value=200 dtype=u8
			b u8[] = add(a, a)
			c u8[] = neg(a)
			return b, c`, `
			a u8[] = full() value=200 dtype=u8
			b u8[] = full() value=144 dtype=u8
			c u8[] = full() value=56 dtype=u8
			return b, c`},
		{"what moves elements", `
			a f32[] = full() value=2 dtype=f32
			b f32[2,3] = broadcast_in_dim(a) shape=[2,3]
			c f32[3,2] = transpose(b) permutation=[1,0]
			d f32[6] = reshape(c) shape=[6]
			e f32[6] = stop_gradient(d)
			f bf16[6] = convert_element_type(e) dtype=bf16
			return f`, `
			a f32[] = full() value=2 dtype=f32
			b f32[2,3] = full() value=2 dtype=f32 shape=[2,3]
			c f32[3,2] = full() value=2 dtype=f32 shape=[3,2]
			d f32[6] = full() value=2 dtype=f32 shape=[6]
			e f32[6] = full() value=2 dtype=f32 shape=[6]
			f bf16[6] = full() value=2 dtype=bf16 shape=[6]
			return f`},
		{"infinity and negative zero", `
			a f32[] = full() value=1 dtype=f32
			z f32[] = full() dtype=f32
			b f32[] = div(a, z)
			c f32[] = neg(z)
			return b, c`, `
			a f32[] = full() value=1 dtype=f32
			z f32[] = full() dtype=f32
			b f32[] = full() value=inf dtype=f32
			c f32[] = full() value=-0 dtype=f32
			return b, c`},
		unchanged("NaN", `
			z f32[] = full() dtype=f32
			a f32[] = div(z, z)
			return a`),
		unchanged("the zero that placement rules know", `
			z f32[] = full() dtype=f32
			a f32[2] = broadcast_in_dim(z) shape=[2]
			return a`),
		unchanged("integers that a parameter cannot hold", `
			a i64[] = full() value=3.0370005e+09 dtype=i64
			b i64[] = full() value=3.037000499e+09 dtype=i64
			c i64[] = mul(a, b)
			return c`),
		unchanged("a function of a library", `
			a f32[] = full() value=2 dtype=f32
			b f32[] = exp(a)
			return b`),
		unchanged("a division of integers", `
			a i32[] = full() value=6 dtype=i32
			b i32[] = div(a, a)
			return b`),
		unchanged("an argument that is none", `
			a f32[] = full() value=2 dtype=f32
			b f32[] = mul(a, s)
			return b`),
	})
}
