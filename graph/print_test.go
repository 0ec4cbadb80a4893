package graph

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts are programs that print as they are written.
var texts = map[string]string{
	"layer": `program moe(x f32[16,8], w f32[8,4]) {
	h f32[16,4] = dot(x, w) lhs_contract=1
	v1 f32[16,2], v2 i32[16,2] = top_k(h) k=2
	return v1, v2
}
`,
	"empty":      "program p() {\n\treturn\n}\n",
	"identity":   "program p(x f32[], n i64[0,3]) {\n\treturn x, x, n\n}\n",
	"no results": "program p(x bf16[2]) {\n\tprint(x)\n\tprint()\n\treturn\n}\n",
	"taken names": `program p(v1 f32[2], v3 f32[2]) {
	v2 f32[2] = neg(v1)
	v4 f32[2] = exp(v2)
	v f32[2] = exp(v4)
	return v4, v3, v
}
`,
	"names like types": "program f32(f32 f32[2]) {\n\ttop_k f32[2] = neg(f32)\n\tneg f32[2] = exp(top_k)\n\treturn neg\n}\n",
	"kinds": `program p(x f32[2]) {
	v1 f32[2] = all(x) axes=[0,-1] i=-3 i64=-9223372036854775808 u=18446744073709551615 f=1e-05 half=0.1 ok=true mode="a \"b\" # é\n\xff" groups=[[0,1],[],[2]] names=["","x"] ratios=[0,-0,inf,-inf,nan,0.1,1e+300] dtype=bf16
	v2 f32[2] = all(v1)
	v3 f32[2] = all(v2) f=-0
	v4 f32[2] = all(v3) f=inf
	v5 f32[2] = all(v4) f=nan half=-inf
	v6 f32[2] = share(v5) tag="t"
	return v6
}
`,
	"structural": `program c() {
	v1 f32[2,3] = full() value=-0 dtype=f32 shape=[2,3]
	v2 f32[] = full() dtype=f32
	v3 f32[2,3] = add_any(v1, v1)
	return v2, v3
}
`,
	"calls": `program f(x f32[2]) {
	v1 f32[2] = neg(x)
	return v1
}

program f_1(x f32[2], y f32[2], dy f32[2]) {
	return dy
}

program g(x f32[2]) {
	v1 f32[2] = custom_vjp(x) fn=f vjp=f_1
	v2 f32[2] = all(v1) fn=f
	return v2
}

program main(x f32[2]) {
	v1 f32[2] = custom_vjp(x) fn=g vjp=f_1
	v2 f32[2] = custom_vjp(v1) fn=f vjp=f_1
	return v2
}
`,
	"cases": `program a() {
	return
}

program b() {
	return
}

program main(x f32[2]) {
	v1 f32[2] = switch(x) cases=[a,b,a]
	return v1
}
`,
}

func TestTextRoundTrip(t *testing.T) {
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			p, err := Parse("p.moe", text, toys()...)
			require.NoError(t, err)
			if got := p.String(); got != text {
				t.Errorf("printed\n%s\nwant\n%s", got, text)
			}
			if err := Check(p); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTextLoose parses programs that are not written as they would be printed.
func TestTextLoose(t *testing.T) {
	p, err := Parse("", "# a file\r\n\n program unused(){\n return\n}\n\nprogram p ( x f32 [ 2 ] ) { # inputs\r\n\n"+
		"  h=neg(x)# no type\n\tv9 , v7 i32[1] = top_k(h) axis = 000 k = +1\n\treturn h,v7 # two\n# end\n\n} # p", toys()...)
	require.ErrorContains(t, err, "character '+'")
	require.Nil(t, p)
	p, err = Parse("", "# a file\r\n\n program unused(){\n return\n}\n\nprogram p ( x f32 [ 2 ] ) { # inputs\r\n\n"+
		"  h=neg(x)# no type\n\tv9 , v7 i32[1] = top_k(h) axis = 000 k = 1\n\treturn h,v7 # two\n# end\n\n} # p", toys()...)
	require.NoError(t, err)
	want := "program p(x f32[2]) {\n\th f32[2] = neg(x) # text:9\n\tv1 f32[1], v2 i32[1] = top_k(h) k=1 # text:10\n\treturn h, v2\n}\n"
	if got := p.Print(PrintOptions{Pos: true}); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestNames(t *testing.T) {
	p, err := Trace("p", func(tr *Tracer) []*Value {
		x := tr.Input("x", F32, 2)
		tr.Input("return_1", F32)
		tr.Input("v2", F32)
		for _, name := range []string{"h", "h", "h_1", "h", "x", "", "v7", "program", "return", "gate weight/é", "1st", "", "v", "v_1", "v"} {
			Apply1(toyUnary{"neg"}, x).Named(name)
		}
		return nil
	})
	require.NoError(t, err)
	names := p.Names()
	var got []string
	for _, v := range p.In {
		got = append(got, names[v])
	}
	for _, e := range p.Eqns {
		got = append(got, names[e.Out[0]])
	}
	require.Equal(t, []string{"x", "return_1", "v2",
		"h", "h_2", "h_1", "h_3", "x_1", "v1", "v3", "program", "return", "gate weight/é", "1st", "v4", "v", "v_1", "v_2"}, got)

	q, err := Parse("p", p.String(), toys()...)
	require.NoError(t, err)
	require.Equal(t, p.String(), q.String())
}

// Two programs with the same name are printed under two names. The main one keeps its name.
func TestProgramNames(t *testing.T) {
	sub := func(name string, inputs ...string) *Program {
		p, err := Trace(name, func(tr *Tracer) []*Value {
			for _, n := range inputs {
				tr.Input(n, F32)
			}
			return tr.prog.In[len(tr.prog.In)-1:]
		})
		require.NoError(t, err)
		return p
	}
	f, df, other := sub("f", "x"), sub("f", "x", "y", "dy"), sub("f_1", "x")
	p, err := Trace("f", func(tr *Tracer) []*Value {
		y := Apply1(CustomOp{f, df}, tr.Input("x", F32))
		return []*Value{Apply1(toyAll{Fn: other}, Apply1(CustomOp{f, df}, y))}
	})
	require.NoError(t, err)
	want := `program f_2(x f32[]) {
	return x
}

program f_3(x f32[], y f32[], dy f32[]) {
	return dy
}

program f_1(x f32[]) {
	return x
}

program f(x f32[]) {
	v1 f32[] = custom_vjp(x) fn=f_2 vjp=f_3
	v2 f32[] = custom_vjp(v1) fn=f_2 vjp=f_3
	v3 f32[] = all(v2) fn=f_1
	return v3
}
`
	require.Equal(t, want, p.String())
	q, err := Parse("p", want, toys()...)
	require.NoError(t, err)
	require.Equal(t, want, q.String())
}

func TestPrintOptions(t *testing.T) {
	p, err := Parse("dir/moe.go", texts["layer"], toys()...)
	require.NoError(t, err)
	got := p.Print(PrintOptions{Pos: true, Type: func(v *Value) string {
		if v.Name == "h" {
			return "f32[16@ep,4]{+tp}"
		}
		return ""
	}})
	require.Equal(t, `program moe(x f32[16,8], w f32[8,4]) {
	h f32[16@ep,4]{+tp} = dot(x, w) lhs_contract=1 # moe.go:2
	v1 f32[16,2], v2 i32[16,2] = top_k(h) k=2 # moe.go:3
	return v1, v2
}
`, got)
}

func TestParams(t *testing.T) {
	require.Equal(t, []Param{
		{"axes", "list of integers", "[]", true},
		{"i", "integer", "0", true},
		{"i64", "integer", "0", true},
		{"u", "unsigned integer", "0", true},
		{"f", "number", "-0", false},
		{"half", "number", "0.1", false},
		{"ok", "boolean", "false", true},
		{"mode", "quoted string", `""`, true},
		{"groups", "list of lists of integers", "[[]]", false},
		{"names", "list of quoted strings", "[]", true},
		{"ratios", "list of numbers", "[]", true},
		{"dtype", "element type", "none", true},
		{"fn", "program", "<*graph.Program>", true},
	}, Params(toyAll{F: math.Copysign(0, -1), Half: 0.1, Names: []string{}, Groups: [][]int{nil}}))
	require.Equal(t, []Param{{"f", "", "<func()>", true}}, Params(toyOdd{}))
	require.Empty(t, Params(toyPrint{}))

	require.Equal(t, " k=2 axis=1", ParamString(toyTopK{2, 1}))
	require.Equal(t, "", ParamString(toyTopK{}))
	require.Equal(t, ` tag="x"`, ParamString(&toyShare{"x"}))
}

func TestSnake(t *testing.T) {
	for name, want := range map[string]string{
		"K": "k", "TopK": "top_k", "VJP": "vjp", "Axis": "axis", "LHSContract": "lhs_contract", "NumExperts": "num_experts",
		"DType": "dtype", "OutDType": "out_dtype", "Axis2": "axis2", "I64": "i64", "EP": "ep", "MaxEP": "max_ep",
	} {
		if got := snake(name); got != want {
			t.Errorf("snake(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestEqualPrimitive(t *testing.T) {
	parse := func(text string) *Program {
		p, err := Parse("p", text, toys()...)
		require.NoError(t, err)
		return p
	}
	f, same, g := parse(texts["layer"]), parse(texts["layer"]), parse(texts["empty"])
	negZero := math.Copysign(0, -1)
	// Both functions have the same code, and may return different names.
	kernel := func(name string) Primitive { return toyKernel{func() string { return name }} }
	tests := []struct {
		a, b Primitive
		want bool
	}{
		{nil, nil, true},
		{toyDot{}, nil, false},
		{toyDot{1, 0}, toyDot{1, 0}, true},
		{toyDot{1, 0}, toyDot{0, 1}, false},
		{toyDot{}, toyTopK{}, false},
		{toyUnary{"neg"}, toyUnary{"neg"}, true},
		{toyUnary{"neg"}, toyUnary{"exp"}, false},
		{toyAll{hidden: 1}, toyAll{hidden: 2}, false},
		{toyAll{F: math.NaN()}, toyAll{F: math.NaN()}, true},
		{toyAll{F: math.NaN()}, toyAll{F: math.Float64frombits(math.Float64bits(math.NaN()) ^ 2)}, true},
		{toyAll{F: negZero}, toyAll{}, false},
		{toyAll{Names: []string{}}, toyAll{}, true},
		{toyAll{Groups: [][]int{{}}}, toyAll{Groups: [][]int{nil}}, true},
		{toyAll{Groups: [][]int{{1}}}, toyAll{Groups: [][]int{{2}}}, false},
		{toyAll{toyAxes: toyAxes{[]int{1}}}, toyAll{toyAxes: toyAxes{[]int{1, 2}}}, false},
		{toyAll{Fn: f}, toyAll{Fn: same}, true},
		{toyAll{Fn: f}, toyAll{Fn: g}, false},
		{toyAll{Fn: f}, toyAll{}, false},
		{kernel("a"), kernel("a"), false},
		{kernel("a"), kernel("b"), false},
		{&toyShare{"a"}, &toyShare{"a"}, true},
		{&toyShare{"a"}, &toyShare{"b"}, false},
		{FullOp{1, F32, []int{2}}, FullOp{1, F32, []int{2}}, true},
		{FullOp{1, F32, []int{2}}, FullOp{1, F32, []int{3}}, false},
	}
	for i, tt := range tests {
		if got := EqualPrimitive(tt.a, tt.b); got != tt.want {
			t.Errorf("%d: EqualPrimitive(%#v, %#v) = %v", i, tt.a, tt.b, got)
		}
		if got := EqualPrimitive(tt.b, tt.a); got != tt.want {
			t.Errorf("%d: EqualPrimitive(%#v, %#v) = %v", i, tt.b, tt.a, got)
		}
	}
}
