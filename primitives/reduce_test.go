package primitives_test

func reduceRows() []row {
	return []row{
		at(row{prim: "reduce_sum", src: []string{
			"program p(x f64[4,6]) {\n y = reduce_sum(x) axes=[0]\n return y\n}",
			"program p(x f64[4,2,6]) {\n y = reduce_sum(x) axes=[0,2]\n return y\n}",
			"program p(x f64[4,2]) {\n y = reduce_sum(x) axes=[0,1]\n return y\n}",
			"program p(x f64[0,2]) {\n y = reduce_sum(x) axes=[0]\n return y\n}",
			"program p(x f64[1,4,1]) {\n y = reduce_sum(x) axes=[0,1]\n return y\n}",
			"program p(x f64[3]) {\n y = reduce_sum(x)\n return y\n}",
		}}),
	}
}
