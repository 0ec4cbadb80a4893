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
		at(row{prim: "dot_general", reassociates: true, src: []string{
			"program p(x f64[4,6], w f64[6,2]) {\n y = dot_general(x, w) lhs_contract=[1] rhs_contract=[0]\n return y\n}",
			"program p(q f64[2,4,2,3], k f64[2,6,2,3]) {\n s = dot_general(q, k) lhs_contract=[3] rhs_contract=[3] lhs_batch=[0,2] rhs_batch=[0,2]\n return s\n}",
			"program p(x f64[4,2,6], y f64[6,3,2]) {\n z = dot_general(x, y) lhs_contract=[1,2] rhs_contract=[2,0]\n return z\n}",
			"program p(x f64[2,4,6], y f64[2,4,2]) {\n z = dot_general(x, y) lhs_contract=[0,1] rhs_contract=[0,1]\n return z\n}",
			"program p(x f64[4,2,2], y f64[2,2]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]\n return z\n}",
			"program p(x f64[4,2], y f64[2,4]) {\n z = dot_general(x, y) lhs_batch=[0,1] rhs_batch=[1,0]\n return z\n}",
			"program p(x f64[4], y f64[4]) {\n z = dot_general(x, y) lhs_contract=[0] rhs_contract=[0]\n return z\n}",
			"program p(x f64[2], y f64[4]) {\n z = dot_general(x, y)\n return z\n}",
			"program p(x f64[4,0], y f64[0,2]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]\n return z\n}",
			"program p(x f64[0,4], y f64[4,2]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]\n return z\n}",
			"program p(x f64[1,4], y f64[4,1]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]\n return z\n}",
		}}),
	}
}
