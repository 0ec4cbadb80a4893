package primitives_test

import (
	"math/rand/v2"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// unarySrc is the usual three programs of a function of one argument.
func unarySrc(op string) []string {
	return []string{
		"program p(x f64[4,6]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[0,2]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[1,2,1]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[]) {\n y = " + op + "(x)\n return y\n}",
	}
}

// binarySrc is the usual three programs of a function of two arguments.
func binarySrc(op string) []string {
	return []string{
		"program p(x f64[4,2], y f64[4,2]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x f64[2,0], y f64[2,0]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x f64[1,4], y f64[1,4]) {\n z = " + op + "(x, y)\n return z\n}",
		"program p(x f64[], y f64[]) {\n z = " + op + "(x, y)\n return z\n}",
	}
}

type gens = map[string]func(*rand.Rand, graph.Type) array.Array

func elementwiseRows() []row {
	return []row{
		at(row{prim: "neg", src: unarySrc("neg")}),
		at(row{prim: "exp", src: unarySrc("exp")}),
		at(row{prim: "log", src: unarySrc("log"), in: gens{"x": uniform(0.3, 2)}}),
		at(row{prim: "add", src: binarySrc("add")}),
		at(row{prim: "sub", src: binarySrc("sub")}),
		at(row{prim: "mul", src: binarySrc("mul")}),
		at(row{prim: "div", src: binarySrc("div"), in: gens{"y": awayFromZero(0.5, 2)}}),
		at(row{prim: "add_any", src: []string{
			"program p(x f64[4,2], y f64[4,2], z f64[4,2]) {\n s = add_any(x, y, z)\n return s\n}",
			"program p(x f64[0], y f64[0]) {\n s = add_any(x, y)\n return s\n}",
			"program p(x f64[1]) {\n s = add_any(x)\n return s\n}",
		}}),
	}
}
