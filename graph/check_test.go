package graph

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	const text = `program f(x f32[2]) {
	v1 f32[2] = neg(x)
	return v1
}

program df(x f32[2], y f32[2], dy f32[2]) {
	return dy
}

program p(x f32[2], y f32[2]) {
	a f32[2] = neg(x)
	b f32[2] = exp(a)
	c f32[2] = custom_vjp(b) fn=f vjp=df
	d f32[2], e i32[2] = top_k(c) k=2
	return d, y
}
`
	// The text around the equations b and c in an error.
	const atB = `
program p, equation 2 of 4:
   a f32[2] = neg(x) # p.moe:11
 > b f32[2] = exp(a) # p.moe:12
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13`
	tests := []struct {
		name  string
		spoil func(p *Program)
		want  string
	}{
		{"nothing", func(p *Program) {}, ""},
		{"nil input", func(p *Program) { p.In[1] = nil }, "graph: check: program p: input 1 is nil"},
		{"input twice", func(p *Program) { p.In[1] = p.In[0] }, "graph: check: program p: input 1: x is an input already"},
		{"two inputs of a name", func(p *Program) { p.In[1].Name = "x" }, "graph: check: program p: input 1: x is an input already"},
		{"input without name", func(p *Program) { p.In[1].Name = "" }, `graph: check: program p: input 1: its name is empty`},
		{"program name", func(p *Program) { p.Name = "a b" }, `graph: check: program a b: name "a b", want a letter or _ and then letters, digits or _`},
		{"input index", func(p *Program) { p.In[0].Index = 1 }, "graph: check: program p: input 0: x has index 1"},
		{"input with equation", func(p *Program) { p.In[0].Def = p.Eqns[0] }, "graph: check: program p: input 0: x is the result of an equation"},
		{"input type", func(p *Program) { p.In[1].Type = Type{} }, "graph: check: program p: input 1: y has type none[], want an element type and sizes whose bytes fit in 63 bits"},
		{"input shape", func(p *Program) { p.In[1].Type = T(F32, -1) }, "graph: check: program p: input 1: y has type f32[-1], want an element type and sizes whose bytes fit in 63 bits"},
		{"nil output", func(p *Program) { p.Out[1] = nil }, "graph: check: program p: output 1 is nil"},
		{"foreign output", func(p *Program) { p.Out[1] = &Value{Name: "z", Type: T(F32)} }, "graph: check: program p: output 1: z f32[] is neither an input nor a result of its equations"},

		{"nil equation", func(p *Program) { p.Eqns[0] = nil }, `-: the equation or its primitive is nil
program p, equation 1 of 4:
 > <nil>
   b f32[2] = exp(<a>) # p.moe:12`},
		{"nil primitive", func(p *Program) { p.Eqns[3].Prim = nil }, `-: the equation or its primitive is nil
program p, equation 4 of 4:
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13
 > <nil>`},
		{"nil argument", func(p *Program) { p.Eqns[1].In[0] = nil }, `p.moe:12: exp(nil): argument 0 is nil
program p, equation 2 of 4:
   a f32[2] = neg(x) # p.moe:11
 > b f32[2] = exp(<nil>) # p.moe:12
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13`},
		{"used before", func(p *Program) { p.Eqns[0], p.Eqns[1] = p.Eqns[1], p.Eqns[0] }, `p.moe:12: exp(f32[2]): argument 0 is not defined above
program p, equation 1 of 4:
 > b f32[2] = exp(a) # p.moe:12
   a f32[2] = neg(x) # p.moe:11`},
		{"used in itself", func(p *Program) { p.Eqns[0].In[0] = p.Eqns[0].Out[0] }, `p.moe:11: neg(f32[2]): argument 0 is not defined above
program p, equation 1 of 4:
 > a f32[2] = neg(a) # p.moe:11
   b f32[2] = exp(a) # p.moe:12`},
		{"foreign argument", func(p *Program) { p.Eqns[0].In[0] = &Value{Name: "z", Type: T(F32)} }, `p.moe:11: neg(f32[]): argument 0 is not defined above
program p, equation 1 of 4:
 > a f32[2] = neg(<z>) # p.moe:11
   b f32[2] = exp(a) # p.moe:12`},
		{"too few arguments", func(p *Program) { p.Eqns[1].In = nil }, `p.moe:12: exp(): 0 arguments, want 1
program p, equation 2 of 4:
   a f32[2] = neg(x) # p.moe:11
 > b f32[2] = exp() # p.moe:12
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13`},
		{"result count", func(p *Program) { p.Eqns[3].Out = p.Eqns[3].Out[:1] }, `p.moe:14: top_k(f32[2]): 1 results, want 2
program p, equation 4 of 4:
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13
 > d f32[2] = top_k(c) k=2 # p.moe:14`},
		{"nil result", func(p *Program) { p.Eqns[3].Out[1] = nil }, `p.moe:14: top_k(f32[2]): result 1 is nil
program p, equation 4 of 4:
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13
 > d f32[2], <nil> = top_k(c) k=2 # p.moe:14`},
		{"defined twice", func(p *Program) { p.Eqns[1].Out[0] = p.Eqns[0].Out[0] }, `p.moe:12: exp(f32[2]): result 0 is defined above
program p, equation 2 of 4:
   a f32[2] = neg(x) # p.moe:11
 > a f32[2] = exp(a) # p.moe:12
   c f32[2] = custom_vjp(<b>) fn=f vjp=df # p.moe:13`},
		{"definition", func(p *Program) { p.Eqns[1].Out[0].Def = p.Eqns[0] }, "p.moe:12: exp(f32[2]): result 0 has another equation as its definition" + atB},
		{"index", func(p *Program) { p.Eqns[1].Out[0].Index = 1 }, "p.moe:12: exp(f32[2]): result 0 has index 1" + atB},
		{"type", func(p *Program) { p.Eqns[1].Out[0].Type.DType = F64 }, `p.moe:12: exp(f32[2]): result 0 is f64[2], want f32[2]
program p, equation 2 of 4:
   a f32[2] = neg(x) # p.moe:11
 > b f64[2] = exp(a) # p.moe:12
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13`},
		{"size", func(p *Program) {
			p.Eqns[3].Prim = toyTopK{K: -1}
			p.Eqns[3].Out[0].Type, p.Eqns[3].Out[1].Type = T(F32, -1), T(I32, -1)
		}, `p.moe:14: top_k(f32[2]): result 0 is f32[-1], want an element type and sizes whose bytes fit in 63 bits
program p, equation 4 of 4:
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13
 > d f32[-1], e i32[-1] = top_k(c) k=-1 # p.moe:14`},
		{"panic", func(p *Program) { p.Eqns[1].Prim = toyPanic{At: 1} }, `p.moe:12: panic(f32[2]): the primitive's Infer panics at toy_test.go:97: runtime error: index out of range [1] with length 1
program p, equation 2 of 4:
   a f32[2] = neg(x) # p.moe:11
 > b f32[2] = panic(a) at=1 # p.moe:12
   c f32[2] = custom_vjp(b) fn=f vjp=df # p.moe:13`},
		{"callee", func(p *Program) { p.Eqns[2].Prim.(CustomOp).Fn.Eqns[0].Out[0].Index = 2 }, `p.moe:2: neg(f32[2]): result 0 has index 2
program f, equation 1 of 1:
 > v1 f32[2] = neg(x) # p.moe:2`},
		{"recursion", func(p *Program) { p.Eqns[2].Prim = CustomOp{p, p} }, "graph: check: program p refers to itself"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse("p.moe", text, toys()...)
			require.NoError(t, err)
			tt.spoil(p)
			_ = p.String() // a broken program can be printed too
			got := ""
			if err := Check(p); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	require.EqualError(t, Check(nil), "graph: check: program is nil")
}
