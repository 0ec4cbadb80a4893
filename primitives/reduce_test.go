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
			"program p(x f64[4,2,3]) {\n y = reduce_sum(x) axes=[0,1] tree=4\n return y\n}",
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
			"program p(x f64[4,3], y f64[4,2]) {\n z = dot_general(x, y) lhs_contract=[0] rhs_contract=[0] tree=4\n return z\n}",
			"program p(x f64[2,4,2], y f64[2,2,4]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[2] lhs_batch=[0] rhs_batch=[0] tree=2\n return z\n}",
			"program p(x f64[1,4], y f64[4,1]) {\n z = dot_general(x, y) lhs_contract=[1] rhs_contract=[0]\n return z\n}",
		}}),
		at(row{prim: "reduce_prod", in: gens{"x": awayFromZero(0.6, 1.5)}, src: []string{
			"program p(x f64[4,6]) {\n y = reduce_prod(x) axes=[0]\n return y\n}",
			"program p(x f64[4,2,6]) {\n y = reduce_prod(x) axes=[0,2]\n return y\n}",
			"program p(x f64[4,2]) {\n y = reduce_prod(x) axes=[0,1]\n return y\n}",
			"program p(x f64[2,0]) {\n y = reduce_prod(x) axes=[0]\n return y\n}",
			"program p(x f64[1,4,1]) {\n y = reduce_prod(x) axes=[0,1]\n return y\n}",
			"program p(x f64[3]) {\n y = reduce_prod(x)\n return y\n}",
		}}),
		at(row{prim: "reduce_max", in: gens{"x": distinct}, src: []string{
			"program p(x f64[4,6]) {\n y = reduce_max(x) axes=[0]\n return y\n}",
			"program p(x f64[4,2,6]) {\n y = reduce_max(x) axes=[0,2]\n return y\n}",
			"program p(x f64[4,2]) {\n y = reduce_max(x) axes=[0,1]\n return y\n}",
			"program p(x f64[2,0]) {\n y = reduce_max(x) axes=[0]\n return y\n}",
			"program p(x f64[1,4,1]) {\n y = reduce_max(x) axes=[0,1]\n return y\n}",
			"program p(x f64[3]) {\n y = reduce_max(x)\n return y\n}",
		}}),
		at(row{prim: "reduce_min", in: gens{"x": distinct}, src: []string{
			"program p(x f64[4,6]) {\n y = reduce_min(x) axes=[0]\n return y\n}",
			"program p(x f64[4,2,6]) {\n y = reduce_min(x) axes=[0,2]\n return y\n}",
			"program p(x f64[4,2]) {\n y = reduce_min(x) axes=[0,1]\n return y\n}",
			"program p(x f64[2,0]) {\n y = reduce_min(x) axes=[0]\n return y\n}",
			"program p(x f64[1,4,1]) {\n y = reduce_min(x) axes=[0,1]\n return y\n}",
			"program p(x f64[3]) {\n y = reduce_min(x)\n return y\n}",
		}}),
		at(row{prim: "argmax", in: gens{"x": distinct}, src: argSrc("argmax")}),
		at(row{prim: "argmin", in: gens{"x": distinct}, src: argSrc("argmin")}),
		at(row{prim: "cumsum", src: []string{
			"program p(x f64[4,6]) {\n y = cumsum(x) axis=1\n return y\n}",
			"program p(x f64[4,2,2]) {\n y = cumsum(x) reverse=true\n return y\n}",
			"program p(x f64[0,2]) {\n y = cumsum(x)\n return y\n}",
			"program p(x f64[1,4]) {\n y = cumsum(x) reverse=true\n return y\n}",
		}}),
		at(row{prim: "sort", in: gens{"x": distinct}, src: []string{
			"program p(x f64[4,6]) {\n y, i = sort(x) dimension=1\n return y, i\n}",
			"program p(x f64[4,2,2]) {\n y, i = sort(x)\n return y, i\n}",
			"program p(x f64[0,2]) {\n y, i = sort(x)\n return y\n}",
			"program p(x f64[1,4]) {\n y, i = sort(x)\n return y\n}",
		}}),
		at(row{prim: "top_k", in: gens{"x": distinct}, src: []string{
			"program p(x f64[4,6]) {\n y, i = top_k(x) k=2\n return y, i\n}",
			"program p(x f64[2,4,3]) {\n y, i = top_k(x) k=3\n return y, i\n}",
			"program p(x f64[4,2]) {\n y, i = top_k(x)\n return y, i\n}",
			"program p(x f64[0,2]) {\n y, i = top_k(x) k=1\n return y\n}",
			"program p(x f64[2,1]) {\n y, i = top_k(x) k=1\n return y\n}",
		}}),
		at(row{prim: "take_along_axis", src: []string{
			"program p(x f64[4,3], i i32[4,2]) {\n y = take_along_axis(x, i) axis=1\n return y\n}",
			"program p(x f64[3,4], i i32[6,4]) {\n y = take_along_axis(x, i)\n return y\n}",
			"program p(x f64[3,2], i i32[0,2]) {\n y = take_along_axis(x, i)\n return y\n}",
			"program p(x f64[4,3,1], i i32[4,1,1]) {\n y = take_along_axis(x, i) axis=1\n return y\n}",
		}}),
		at(row{prim: "add_along_axis", reassociates: true, src: []string{
			"program p(x f64[4,2], i i32[4,2]) {\n y = add_along_axis(x, i) axis=1 size=3\n return y\n}",
			"program p(x f64[6,4], i i32[6,4]) {\n y = add_along_axis(x, i) size=4\n return y\n}",
			"program p(x f64[2,0], i i32[2,0]) {\n y = add_along_axis(x, i) axis=1 size=3\n return y\n}",
			"program p(x f64[1,4], i i32[1,4]) {\n y = add_along_axis(x, i) size=3\n return y\n}",
		}}),
	}
}

// argSrc returns the usual programs for argmax and argmin.
func argSrc(op string) []string {
	return []string{
		"program p(x f64[4,6]) {\n y = " + op + "(x) axis=1\n return y\n}",
		"program p(x f64[3,2,2]) {\n y = " + op + "(x)\n return y\n}",
		"program p(x f64[4,0,2]) {\n y = " + op + "(x) axis=2 index_dtype=i64\n return y\n}",
		"program p(x f64[1,4]) {\n y = " + op + "(x) index_dtype=u8\n return y\n}",
	}
}
