package optimize

import "testing"

func TestCommon(t *testing.T) {
	golden(t, common, []rewrites{
		{"chains", `
			a f32[2,3] = exp(x)
			b f32[2,3] = exp(x)
			c f32[2,3] = mul(a, y)
			d f32[2,3] = mul(b, y)
			e f32[2,3] = add(c, d)
			return e`, `
			a f32[2,3] = exp(x)
			c f32[2,3] = mul(a, y)
			e f32[2,3] = add(c, c)
			return e`},
		{"other parameters, arguments or order of them", `
			a f32[3,2] = reshape(x) shape=[3,2]
			b f32[6] = reshape(x) shape=[6]
			c f32[6] = reshape(y) shape=[6]
			d f32[2,3] = sub(x, y)
			e f32[2,3] = sub(y, x)
			return a, b, c, d, e`, `
			a f32[3,2] = reshape(x) shape=[3,2]
			b f32[6] = reshape(x) shape=[6]
			c f32[6] = reshape(y) shape=[6]
			d f32[2,3] = sub(x, y)
			e f32[2,3] = sub(y, x)
			return a, b, c, d, e`},
		{"another second argument", `
			a f32[2,3] = sub(x, x)
			b f32[2,3] = sub(x, y)
			c f32[2,3] = add(a, b)
			return c`, `
			a f32[2,3] = sub(x, x)
			b f32[2,3] = sub(x, y)
			c f32[2,3] = add(a, b)
			return c`},
		{"another parameter", `
			a f32[2,3] = round(x)
			b f32[2,3] = round(x) to_even=true
			c f32[2,3] = add(a, b)
			return c`, `
			a f32[2,3] = round(x)
			b f32[2,3] = round(x) to_even=true
			c f32[2,3] = add(a, b)
			return c`},
		{"members of a family", `
			a f32[2,3] = exp(x)
			b f32[2,3] = log(x)
			return a, b`, `
			a f32[2,3] = exp(x)
			b f32[2,3] = log(x)
			return a, b`},
		{"zero and negative zero", `
			a f32[] = full() dtype=f32
			b f32[] = full() value=-0 dtype=f32
			c f32[] = full() dtype=f32
			d f32[] = add(a, b)
			e f32[] = add(c, d)
			return e`, `
			a f32[] = full() dtype=f32
			b f32[] = full() value=-0 dtype=f32
			d f32[] = add(a, b)
			e f32[] = add(a, d)
			return e`},
		{"several results", `
			a f32[2,1], i i32[2,1] = top_k(x) k=1
			b f32[2,1], j i32[2,1] = top_k(x) k=1
			c f32[2,1] = add(a, b)
			return c, i`, `
			a f32[2,1], i i32[2,1] = top_k(x) k=1
			c f32[2,1] = add(a, a)
			return c, i`},
		{"named results keep their names", `
			a f32[2,3] = exp(x)
			b f32[2,3] = exp(x)
			return a, b`, `
			a f32[2,3] = exp(x)
			b f32[2,3] = exp(x)
			return a, b`},
		{"a name goes to what has none", `
			v1 f32[2,3] = exp(x)
			out f32[2,3] = exp(x)
			return v1, out`, `
			out f32[2,3] = exp(x)
			return out, out`},
	})
}
