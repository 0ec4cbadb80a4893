package primitives_test

func shapeRows() []row {
	return []row{
		at(row{prim: "full", whole: true, src: []string{
			"program p(x f64[2,4]) {\n c = full() value=2.5 dtype=f64 shape=[2,4]\n y = mul(x, c)\n return y, c\n}",
			"program p(x f64[0]) {\n c = full() value=-1 dtype=f64 shape=[0]\n y = mul(x, c)\n return y, c\n}",
			"program p(x f64[1]) {\n c = full() dtype=f64 shape=[1]\n y = add(x, c)\n return y, c\n}",
		}}),
		at(row{prim: "place_like", src: []string{
			"program p(x f64[4,4], u f64[4,4]) {\n y = place_like(x, u)\n return y\n}",
			"program p(x f64[0,2], u i32[0,2]) {\n y = place_like(x, u)\n return y\n}",
			"program p(x f64[1,4], u f64[1,4]) {\n y = place_like(x, u)\n return y\n}",
		}}),
		at(row{prim: "reshape", src: []string{
			"program p(x f64[4,6]) {\n y = reshape(x) shape=[2,2,3,2]\n return y\n}",
			"program p(x f64[4,2,3]) {\n y = reshape(x) shape=[8,3]\n return y\n}",
			"program p(x f64[0,3]) {\n y = reshape(x) shape=[3,0]\n return y\n}",
			"program p(x f64[1,4,1]) {\n y = reshape(x) shape=[4]\n return y\n}",
			"program p(x f64[]) {\n y = reshape(x) shape=[1,1]\n return y\n}",
		}}),
		at(row{prim: "broadcast_in_dim", src: []string{
			"program p(x f64[4]) {\n y = broadcast_in_dim(x) shape=[2,4,3] dims=[1]\n return y\n}",
			"program p(x f64[4,1]) {\n y = broadcast_in_dim(x) shape=[4,2] dims=[0,1]\n return y\n}",
			"program p(x f64[0]) {\n y = broadcast_in_dim(x) shape=[0,2] dims=[0]\n return y\n}",
			"program p(x f64[], z f64[4,2]) {\n y = broadcast_in_dim(x) shape=[4,2]\n w = mul(y, z)\n return w\n}",
		}}),
		at(row{prim: "transpose", src: []string{
			"program p(x f64[4,2,6]) {\n y = transpose(x) permutation=[2,0,1]\n return y\n}",
			"program p(x f64[4,2]) {\n y = transpose(x) permutation=[1,0]\n return y\n}",
			"program p(x f64[0,3]) {\n y = transpose(x) permutation=[1,0]\n return y\n}",
			"program p(x f64[1,4,1]) {\n y = transpose(x) permutation=[2,1,0]\n return y\n}",
			"program p(x f64[]) {\n y = transpose(x)\n return y\n}",
		}}),
	}
}
