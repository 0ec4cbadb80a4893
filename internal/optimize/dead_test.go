package optimize

import "testing"

func TestDead(t *testing.T) {
	golden(t, dead, []rewrites{
		{"unused", `
			a f32[2,3] = exp(x)
			b f32[2,3] = neg(a)
			c f32[2,3] = neg(y)
			return c`, `
			c f32[2,3] = neg(y)
			return c`},
		{"one result of two is used", `
			a f32[2,1], i i32[2,1] = top_k(x) k=1
			return i`, `
			a f32[2,1], i i32[2,1] = top_k(x) k=1
			return i`},
		{"inputs stay", `
			a f32[2,3] = exp(x)
			return y`, `
			return y`},
		{"a placement is a use", `
			a f32[2,3] = exp(y)
			b f32[2,3] = place_like(x, a)
			return b`, `
			a f32[2,3] = exp(y)
			b f32[2,3] = place_like(x, a)
			return b`},
		{"a placement of nothing is none", `
			a f32[2,3] = exp(y)
			b f32[2,3] = place_like(x, a)
			return x`, `
			return x`},
	})
}
