package kernels_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
)

var (
	approximated = []string{"exp", "expm1", "log", "log1p", "rsqrt", "sin", "cos", "tanh", "logistic", "erf", "silu", "gelu"}
	rounded      = []string{"neg", "abs", "sign", "square", "floor", "ceil", "sqrt", "round", "is_finite"}
	ofTwo        = []string{"add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"}
	ofFloats     = []string{"pow", "swiglu", "silu_grad", "gelu_grad"}
)

// TestFlat compares every function of floats on numbers around 0, of sizes that do and do
// not fill vectors and threadgroups.
func TestFlat(t *testing.T) {
	p := &program{}
	for _, d := range []string{"f32", "bf16", "f16"} {
		for k, shape := range []string{"[13,101]", "[4,8]", "[]", "[1]", "[0,3]"} {
			x, y := d+"x"+string(rune('a'+k)), d+"y"+string(rune('a'+k))
			p.input(x, d+shape)
			p.input(y, d+shape)
			for _, op := range append(append([]string{}, approximated...), rounded...) {
				p.eq("%s(%s)", op, x)
			}
			for _, op := range append(append([]string{}, ofTwo...), ofFloats...) {
				p.eq("%s(%s, %s)", op, x, y)
			}
			p.eq("gelu(%s) tanh=true", x)
			p.eq("gelu_grad(%s, %s) tanh=true", x, y)
			p.eq("round(%s) to_even=true", x)
			p.eq("clamp(%s, %s, %s)", x, y, x)
			p.out = append(p.out, "s"+x, "t"+x)
			p.body = append(p.body, "s"+x+", t"+x+" = swiglu_grad("+x+", "+y+", "+y+")")
		}
	}
	p.options.Instructions = append(append(append([]string{"clamp", "swiglu_grad"}, approximated...), rounded...), append(ofTwo, ofFloats...)...)
	p.check(t, false)
}

// TestFlatSpecial compares them at zeros, infinities, NaNs, halves and what overflows.
func TestFlatSpecial(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16"} {
		t.Run(d, func(t *testing.T) {
			p := &program{fill: special}
			for _, x := range []string{"x", "y", "z"} {
				p.input(x, d+specialSize)
			}
			p.input("c", "bool"+specialSize)
			p.input("i", "i32"+specialSize)
			for _, op := range append(append([]string{}, approximated...), rounded...) {
				if op != "sin" && op != "cos" { // whose large arguments Metal promises nothing for
					p.eq("%s(x)", op)
				}
			}
			for _, op := range append([]string{"pow", "swiglu"}, ofTwo...) {
				p.eq("%s(x, y)", op)
			}
			p.eq("round(x) to_even=true")
			p.eq("select_n(c, x, y)")
			p.eq("select_n(i, x, y, z)")
			p.eq("clamp(x, y, z)")
			p.eq("add_any(x, y, z)")
			for _, to := range []string{"f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "i32", "u32", "u8", "bool"} {
				if to != d {
					p.eq("convert_element_type(x) dtype=%s", to)
				}
			}
			p.options.Instructions = []string{"select_n", "clamp", "add_any", "convert_element_type", "rem", "round", "max"}
			p.check(t, false)
		})
	}
}

// TestFlatIntegers compares functions of integers and bool, where they wrap and divide by 0.
func TestFlatIntegers(t *testing.T) {
	for _, d := range []string{"i32", "u32", "u8", "bool"} {
		t.Run(d, func(t *testing.T) {
			p := &program{fill: special}
			for _, x := range []string{"x", "y", "z"} {
				p.input(x, d+specialSize)
			}
			ops := append(append([]string{}, ofTwo...), "and", "or", "xor")
			ones := []string{"not", "neg", "sign", "square"}
			if d == "bool" {
				ops, ones = ops[5:], ones[:1]
			}
			if d == "i32" {
				ones = append(ones, "abs")
			}
			for _, op := range ops {
				p.eq("%s(x, y)", op)
			}
			for _, op := range ones {
				p.eq("%s(x)", op)
			}
			p.eq("clamp(x, y, z)")
			p.eq("select_n(x, y, z)")
			for _, to := range []string{"f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "i32", "u32", "u8", "bool"} {
				if to != d {
					p.eq("convert_element_type(x) dtype=%s", to)
				}
			}
			p.options.Instructions = append(append(ops, ones...), "clamp", "select_n", "convert_element_type")
			p.check(t, false)
		})
	}
}

// TestFused compares chains: what is repeated along rows and columns, constants,
// scalars, and values that are kept in a narrow type between.
func TestFused(t *testing.T) {
	for _, shape := range []struct{ whole, row, column string }{{"12,7", "7", "12"}, {"5,8", "8", "5"}, {"31,4", "4", "31"}, {"3,6", "6", "3"}, {"4,9", "9", "4"}} {
		p := &program{}
		p.input("x", "f32["+shape.whole+"]")
		p.input("y", "f32["+shape.whole+"]")
		p.input("g", "f32["+shape.row+"]")
		p.input("r", "f32["+shape.column+"]")
		p.input("s", "f32[]")
		p.input("i", "i32["+shape.whole+"]")
		p.input("w", "bf16["+shape.whole+"]")
		p.input("v", "bf16["+shape.row+"]")
		p.input("c", "bool[]")
		a := p.eq("broadcast_in_dim(g) shape=[%s] dims=[1]", shape.whole)
		b := p.eq("mul(x, %s)", a)
		c := p.eq("broadcast_in_dim(r) shape=[%s] dims=[0]", shape.whole)
		d := p.eq("add(%s, %s)", b, c)
		e := p.eq("full() value=1.5 dtype=f32 shape=[%s]", shape.whole)
		f := p.eq("max(%s, %s)", d, e)
		g := p.eq("broadcast_in_dim(s) shape=[%s] dims=[]", shape.whole)
		h := p.eq("add(%s, %s)", f, g)
		j := p.eq("convert_element_type(i) dtype=f32")
		k := p.eq("add(%s, %s)", h, j)
		l := p.eq("gt(%s, y)", k)
		n := p.eq("select_n(%s, %s, y)", l, k)
		last := p.eq("select_n(c, %s, y)", n)
		vv := p.eq("broadcast_in_dim(v) shape=[%s] dims=[1]", shape.whole)
		w2 := p.eq("mul(w, %s)", vv)
		w3 := p.eq("add(%s, w)", w2)
		w4 := p.eq("exp(%s)", w3)
		p.out = []string{last, f, l, w4, w3}
		p.options.Instructions = []string{"fused(broadcast_in_dim, mul, broadcast_in_dim, add, full, max, broadcast_in_dim, add, convert_element_type, add, gt, select_n ×2)", "fused(broadcast_in_dim, mul, add, exp)"}
		p.check(t, true)
	}
}

// TestAdamW compares updates, alone and fused with what converts parameters, in the first
// and in a late step.
func TestAdamW(t *testing.T) {
	for _, step := range []float64{1, 2, 1000, 1e6} {
		for _, d := range []string{"f32", "bf16", "f16"} {
			p := &program{}
			for _, shape := range []string{"[5,3]", "[8,4]"} {
				n := shape[1:2]
				p.input("p"+n, d+shape)
				p.input("m"+n, "f32"+shape)
				p.input("v"+n, "f32"+shape)
				p.input("g"+n, d+shape)
			}
			p.input("lr", "f32[]")
			p.input("step", "i32[]")
			p.input("scale", "f32[]")
			p.fill = func(name string, x array.Array, r *rand.Rand) {
				f := x.Float64s()
				switch name[0] {
				case 'v':
					for i := range f {
						f[i] *= f[i] * 1e-3
					}
				case 's':
					f[0] = map[string]float64{"step": step, "scale": 0.37}[name]
				case 'l':
					f[0] = 1 // so that the step is not small beside the parameter
				}
				if err := x.SetFloat64s(f); err != nil {
					panic(err)
				}
			}
			for _, n := range []string{"5", "8"} {
				x, g := "p"+n, "g"+n
				if d != "f32" {
					p.body = append(p.body, "w"+n+" = convert_element_type("+x+") dtype=f32", "h"+n+" = convert_element_type("+g+") dtype=f32")
					x, g = "w"+n, "h"+n
				}
				p.body = append(p.body,
					"a"+n+", b"+n+", c"+n+" = adamw("+x+", m"+n+", v"+n+", "+g+", lr, step, scale) b1=0.9 b2=0.95 eps=1e-08 weight_decay=0.1",
					"q"+n+" = convert_element_type(a"+n+") dtype=bf16",
					"d"+n+", e"+n+", f"+n+" = adamw(p"+n+", p"+n+", g"+n+", g"+n+", lr, step, scale) b2=0.9999 eps=1e-06")
				if d != "f32" { // second moments are not negative
					p.body[len(p.body)-1] = "d" + n + ", e" + n + ", f" + n + " = adamw(w" + n + ", h" + n + ", v" + n + ", h" + n + ", lr, step, scale) b2=0.9999 eps=1e-06"
				} else {
					p.body[len(p.body)-1] = "d" + n + ", e" + n + ", f" + n + " = adamw(p" + n + ", g" + n + ", v" + n + ", p" + n + ", lr, step, scale) b2=0.9999 eps=1e-06"
				}
				p.out = append(p.out, "q"+n, "a"+n, "b"+n, "c"+n, "d"+n, "e"+n, "f"+n)
			}
			p.check(t, false)
			p.check(t, true)
		}
	}
	p := &program{fill: func(name string, x array.Array, _ *rand.Rand) {
		if name == "step" {
			array.Data[int32](x)[0] = -3
		}
	}}
	for _, x := range []string{"p", "m", "v", "g"} {
		p.input(x, "bf16[8]")
	}
	p.input("lr", "f32[]")
	p.input("step", "i32[]")
	p.input("scale", "f32[]")
	p.body = []string{"a, b, c = adamw(p, m, v, g, lr, step, scale) eps=1e-08", "d = add(a, b)"}
	p.out = []string{"d", "c"}
	p.options.Fails = "step -3, want the number of this update, the first being 1"
	p.check(t, false)
	p.check(t, true)
}

// TestFusedInPlace has results in the memory of arguments that later parts read.
func TestFusedInPlace(t *testing.T) {
	p := &program{}
	p.input("x", "f32[64]")
	p.input("i", "i32[64]")
	sum := p.eq("cumsum(x) axis=0")
	a := p.eq("convert_element_type(i) dtype=f32")
	b := p.eq("mul(%s, %s)", sum, a)
	c := p.eq("cumsum(%s) axis=0", a)
	d := p.eq("cumsum(%s) axis=0", b)
	p.out = []string{c, d}
	p.options.Instructions = []string{"fused(convert_element_type, mul)"}
	p.check(t, true)
}
