package primitives_test

import (
	"math/rand/v2"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// unarySrc returns the usual three programs for a function of one argument.
func unarySrc(op string) []string {
	return []string{
		"program p(x f64[4,6]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[0,2]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[1,2,1]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[]) {\n y = " + op + "(x)\n return y\n}",
	}
}

// binarySrc returns the usual three programs for a function of two arguments.
func binarySrc(op string) []string {
	return []string{
		"program p(x f64[4,2], y f64[4,2]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x f64[2,0], y f64[2,0]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x f64[1,4], y f64[1,4]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x f64[], y f64[]) {\n z = " + op + "(x, y)\n return z\n}",
	}
}

type gens = map[string]func(*rand.Rand, graph.Type) array.Array

// compareSrc returns programs that choose between floats by a comparison, which has a derivative.
func compareSrc(op string) []string {
	return []string{
		"program p(x f64[4,2], y f64[4,2]) {\n c = " + op + "(x, y)\n z = select_n(c, x, y)\n return z, c\n}",
		"program p(x f64[2,0], y f64[2,0]) {\n c = " + op + "(x, y)\n return c\n}",
		"program p(x i32[1,4], y i32[1,4]) {\n c = " + op + "(x, y)\n return c\n}",
		"program p(x bool[2], y bool[2]) {\n c = " + op + "(x, y)\n return c\n}",
		"program p(x u8[2], y u8[2], a i64[4], b i64[4]) {\n c = " + op + "(x, y)\n d = " + op + "(a, b)\n return c, d\n}",
	}
}

// logicalSrc returns programs that run a logical function of two arguments on bool and integers.
func logicalSrc(op string) []string {
	return []string{
		"program p(x bool[4,2], y bool[4,2]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x i32[0,2], y i32[0,2]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x i64[1,4], y i64[1,4]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x u8[2,2], y u8[2,2]) {\n z = " + op + "(x, y)\n return z\n}",
	}
}

// integer returns src, programs of a function with n arguments, and programs on integers.
func integer(op string, n int, src []string) []string {
	args, names := "", ""
	for i := range n {
		if i > 0 {
			args, names = args+", ", names+", "
		}
		name := string(rune('x' + i))
		args, names = args+name+" i32[4,2]", names+name
	}
	return append(src, "program p("+args+") {\n r = "+op+"("+names+")\n return r\n}")
}

func elementwiseRows() []row {
	off := gens{"x": awayFromZero(0.1, 2)}
	positive := gens{"x": uniform(0.3, 2)}
	// Whole numbers and halves are where rounding jumps.
	between := gens{"x": values(0.2, 0.8, -0.3, -0.7, 1.2, 1.9, -2.1, -2.9, 3.3, 4.6)}
	apart := gens{"x": distinct, "y": func(r *rand.Rand, t graph.Type) array.Array {
		y := distinct(r, t).Float64s()
		for i := range y {
			y[i] += 0.017 // no element of y is near one of x
		}
		return of(t, y)
	}}
	return []row{
		at(row{prim: "neg", src: integer("neg", 1, unarySrc("neg"))}),
		at(row{prim: "abs", src: integer("abs", 1, unarySrc("abs")), in: off}),
		at(row{prim: "sign", src: integer("sign", 1, unarySrc("sign")), in: off}),
		at(row{prim: "square", src: integer("square", 1, unarySrc("square"))}),
		at(row{prim: "floor", src: unarySrc("floor"), in: between}),
		at(row{prim: "ceil", src: unarySrc("ceil"), in: between}),
		at(row{prim: "round", src: append(unarySrc("round"),
			"program p(x f64[2,2]) {\n y = round(x) to_even=true\n return y\n}"), in: between}),
		at(row{prim: "exp", src: unarySrc("exp")}),
		at(row{prim: "expm1", src: unarySrc("expm1")}),
		at(row{prim: "log", src: unarySrc("log"), in: positive}),
		at(row{prim: "log1p", src: unarySrc("log1p"), in: gens{"x": uniform(-0.6, 2)}}),
		at(row{prim: "sqrt", src: unarySrc("sqrt"), in: positive}),
		at(row{prim: "rsqrt", src: unarySrc("rsqrt"), in: positive}),
		at(row{prim: "sin", src: unarySrc("sin")}),
		at(row{prim: "cos", src: unarySrc("cos")}),
		at(row{prim: "tanh", src: unarySrc("tanh")}),
		at(row{prim: "logistic", src: unarySrc("logistic")}),
		at(row{prim: "erf", src: unarySrc("erf")}),
		at(row{prim: "is_finite", src: []string{
			"program p(x f64[4,2], y f64[4,2]) {\n c = is_finite(x)\n z = select_n(c, y, x)\n return z, c\n}",
			"program p(x f64[0,2]) {\n c = is_finite(x)\n return c\n}",
			"program p(x f64[1,2]) {\n c = is_finite(x)\n return c\n}",
		}}),
		at(row{prim: "add", src: integer("add", 2, binarySrc("add"))}),
		at(row{prim: "sub", src: integer("sub", 2, binarySrc("sub"))}),
		at(row{prim: "mul", src: integer("mul", 2, binarySrc("mul"))}),
		at(row{prim: "div", src: binarySrc("div"), in: gens{"y": awayFromZero(0.5, 2)}}),
		at(row{prim: "rem", src: binarySrc("rem"), in: gens{"x": values(5.3, -5.2, 5.1, -7.4), "y": values(2, -3, -2.25, 1.5)}}),
		at(row{prim: "pow", src: binarySrc("pow"), in: gens{"x": uniform(0.3, 2), "y": uniform(-2, 2)}}),
		at(row{prim: "max", src: binarySrc("max"), in: apart}),
		at(row{prim: "min", src: binarySrc("min"), in: apart}),
		at(row{prim: "eq", src: compareSrc("eq"), in: apart}),
		at(row{prim: "ne", src: compareSrc("ne"), in: apart}),
		at(row{prim: "lt", src: compareSrc("lt"), in: apart}),
		at(row{prim: "le", src: compareSrc("le"), in: apart}),
		at(row{prim: "gt", src: compareSrc("gt"), in: apart}),
		at(row{prim: "ge", src: compareSrc("ge"), in: apart}),
		at(row{prim: "and", src: logicalSrc("and")}),
		at(row{prim: "or", src: logicalSrc("or")}),
		at(row{prim: "xor", src: logicalSrc("xor")}),
		at(row{prim: "not", src: []string{
			"program p(x bool[4,2]) {\n y = not(x)\n return y\n}",
			"program p(x i64[0]) {\n y = not(x)\n return y\n}",
			"program p(x u8[1,2]) {\n y = not(x)\n return y\n}",
			"program p(x i32[2]) {\n y = not(x)\n return y\n}",
		}}),
		at(row{prim: "select_n", src: []string{
			"program p(w bool[4,2], x f64[4,2], y f64[4,2]) {\n z = select_n(w, x, y)\n return z\n}",
			"program p(w i32[4,2], x f64[4,2], y f64[4,2], z f64[4,2]) {\n r = select_n(w, x, y, z)\n return r\n}",
			"program p(w i32[], x f64[2,2], y f64[2,2], z f64[2,2]) {\n r = select_n(w, x, y, z)\n return r\n}",
			"program p(w bool[], x f64[2], y f64[2]) {\n r = select_n(w, x, y)\n return r\n}",
			"program p(w bool[0], x f64[0], y f64[0]) {\n z = select_n(w, x, y)\n return z\n}",
			"program p(w i64[1,2], x f64[1,2]) {\n z = select_n(w, x)\n return z\n}",
			"program p(w u8[1,2], x i32[1,2], y i32[1,2]) {\n z = select_n(w, x, y)\n return z\n}",
			"program p(w bool[2], x bool[2], y bool[2]) {\n z = select_n(w, x, y)\n return z\n}",
		}}),
		at(row{prim: "clamp", src: []string{
			"program p(lo f64[4,2], x f64[4,2], hi f64[4,2]) {\n y = clamp(lo, x, hi)\n return y\n}",
			"program p(lo f64[], x f64[4,2], hi f64[]) {\n y = clamp(lo, x, hi)\n return y\n}",
			"program p(lo f64[], x f64[2,2], hi f64[2,2]) {\n y = clamp(lo, x, hi)\n return y\n}",
			"program p(lo f64[], x f64[2,0], hi f64[]) {\n y = clamp(lo, x, hi)\n return y\n}",
			"program p(lo f64[1,1], x f64[1,1], hi f64[]) {\n y = clamp(lo, x, hi)\n return y\n}",
			"program p(lo f64[], x f64[], hi f64[]) {\n y = clamp(lo, x, hi)\n return y\n}",
			"program p(lo i32[], x i32[4], hi i32[4]) {\n y = clamp(lo, x, hi)\n return y\n}",
		}, in: gens{"lo": uniform(-0.6, -0.4), "x": values(-0.9, 0.1, 0.8, -0.2, 0.95, -0.7, 0.3, 0), "hi": uniform(0.4, 0.6)}}),
		at(row{prim: "convert_element_type", src: []string{
			"program p(x f64[4,2], n i32[4,2]) {\n m = convert_element_type(n) dtype=f64\n z = mul(x, m)\n return z\n}",
			"program p(x f64[4,2]) {\n n = convert_element_type(x) dtype=i32\n b = convert_element_type(x) dtype=bool\n return n, b\n}",
			"program p(x f64[0]) {\n y = convert_element_type(x) dtype=f64\n return y\n}",
			"program p(x f64[1,2]) {\n y = convert_element_type(x) dtype=f64\n return y\n}",
			"program p(x u8[4]) {\n y = convert_element_type(x) dtype=i64\n z = convert_element_type(y) dtype=u32\n return y, z\n}",
		}, in: gens{"x": awayFromZero(0.1, 0.9), "n": ints(-3, 4)}}),
		at(row{prim: "stop_gradient", src: []string{
			// The stopped value is constant around x, so that differences agree.
			"program p(x f64[4,2]) {\n n = floor(x)\n s = stop_gradient(n)\n y = mul(x, s)\n return y\n}",
			"program p(x f64[0,2]) {\n n = floor(x)\n s = stop_gradient(n)\n return s\n}",
			"program p(x i32[1,2], b bool[4]) {\n y = stop_gradient(x)\n c = stop_gradient(b)\n return y, c\n}",
		}, in: between}),
		at(row{prim: "add_any", src: []string{
			"program p(x f64[4,2], y f64[4,2], z f64[4,2]) {\n s = add_any(x, y, z)\n return s\n}",
			"program p(x f64[0], y f64[0]) {\n s = add_any(x, y)\n return s\n}",
			"program p(x f64[1]) {\n s = add_any(x)\n return s\n}",
		}}),
	}
}
