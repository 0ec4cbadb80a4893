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
		at(row{prim: "optimization_barrier", src: []string{
			"program p(x f64[4,4], u f64[4]) {\n v = sin(u)\n y = optimization_barrier(x, v)\n return y\n}",
			"program p(x f64[0,2], u i32[3]) {\n y = optimization_barrier(x, u)\n return y\n}",
			"program p(x f64[1,4]) {\n y = optimization_barrier(x)\n return y\n}",
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
		at(row{prim: "concatenate", src: []string{
			"program p(x f64[4,2], y f64[4,4], z f64[4,1]) {\n w = concatenate(x, y, z) dimension=1\n return w\n}",
			"program p(x f64[2,4], y f64[3,4]) {\n z = concatenate(x, y)\n return z\n}",
			"program p(x f64[0,2], y f64[4,2]) {\n z = concatenate(x, y)\n return z\n}",
			"program p(x f64[1,2]) {\n z = concatenate(x)\n return z\n}",
		}}),
		at(row{prim: "slice", src: []string{
			"program p(x f64[4,7]) {\n y = slice(x) start_indices=[0,1] limit_indices=[4,6] strides=[1,2]\n return y\n}",
			"program p(x f64[4,2,2]) {\n y = slice(x) start_indices=[1,0,0] limit_indices=[3,2,2]\n return y\n}",
			"program p(x f64[2,4]) {\n y = slice(x) start_indices=[0,2] limit_indices=[2,2]\n return y\n}",
			"program p(x f64[0,2]) {\n y = slice(x) start_indices=[0,1] limit_indices=[0,2]\n return y\n}",
			"program p(x f64[1,4]) {\n y = slice(x) start_indices=[0,0] limit_indices=[1,4]\n return y\n}",
		}}),
		at(row{prim: "pad", src: []string{
			"program p(x f64[4,3], v f64[]) {\n y = pad(x, v) low=[0,1] high=[0,2] interior=[0,1]\n return y\n}",
			"program p(x f64[2,4,5], v f64[]) {\n y = pad(x, v) low=[0,-1,-2] high=[0,1,-1] interior=[0,1,2]\n return y\n}",
			"program p(x f64[4,4], v f64[]) {\n y = pad(x, v) low=[0,-1] high=[0,2]\n return y\n}",
			"program p(x f64[2,0], v f64[]) {\n y = pad(x, v) low=[0,1] high=[0,1] interior=[0,3]\n return y\n}",
			"program p(x f64[1,2]) {\n v = full() dtype=f64\n y = pad(x, v) low=[1,0] high=[2,0]\n return y\n}",
		}}),
		at(row{prim: "rev", src: []string{
			"program p(x f64[4,3]) {\n y = rev(x) dimensions=[1]\n return y\n}",
			"program p(x f64[2,4,3]) {\n y = rev(x) dimensions=[0,2]\n return y\n}",
			"program p(x f64[0,2]) {\n y = rev(x) dimensions=[0]\n return y\n}",
			"program p(x f64[1,4]) {\n y = rev(x)\n return y\n}",
		}}),
		at(row{prim: "iota", src: []string{
			"program p(x f64[4,6]) {\n i = iota() dtype=f64 shape=[4,6] dimension=1\n y = mul(x, i)\n return y\n}",
			"program p(x f64[4,6]) {\n i = iota() dtype=f64 shape=[4,6]\n y = mul(x, i)\n return y, i\n}",
			"program p(x f64[0,2]) {\n i = iota() dtype=f64 shape=[0,2]\n y = mul(x, i)\n return y\n}",
			"program p(x f64[1,2]) {\n i = iota() dtype=f64 shape=[1,2] dimension=1\n y = add(x, i)\n return y\n}",
		}}),
		at(row{prim: "dynamic_slice", in: gens{"i": ints(-3, 6), "j": ints(-3, 6)}, src: []string{
			"program p(x f64[4,5], i i32[], j i32[]) {\n y = dynamic_slice(x, i, j) slice_sizes=[4,2]\n return y\n}",
			"program p(x f64[5,7], i i32[], j i32[]) {\n y = dynamic_slice(x, i, j) slice_sizes=[2,3]\n return y\n}",
			"program p(x f64[0,2], i i32[], j i32[]) {\n y = dynamic_slice(x, i, j) slice_sizes=[0,1]\n return y\n}",
			"program p(x f64[1,4], i i32[], j i32[]) {\n y = dynamic_slice(x, i, j) slice_sizes=[1,4]\n return y\n}",
			"program p(x f64[]) {\n y = dynamic_slice(x)\n return y\n}",
		}}),
		at(row{prim: "dynamic_update_slice", in: gens{"i": ints(-3, 6), "j": ints(-3, 6)}, src: []string{
			"program p(x f64[4,5], u f64[4,2], i i32[], j i32[]) {\n y = dynamic_update_slice(x, u, i, j)\n return y\n}",
			"program p(x f64[5,7], u f64[3,3], i i32[], j i32[]) {\n y = dynamic_update_slice(x, u, i, j)\n return y\n}",
			"program p(x f64[4,2], u f64[4,2], i i32[], j i32[]) {\n v = neg(u)\n w = dynamic_update_slice(x, v, i, j)\n y = neg(w)\n return y\n}",
			"program p(x f64[2,3], u f64[2,0], i i32[], j i32[]) {\n y = dynamic_update_slice(x, u, i, j)\n return y\n}",
			"program p(x f64[1,5], u f64[1,3], i i32[], j i32[]) {\n y = dynamic_update_slice(x, u, i, j)\n return y\n}",
		}}),
		at(row{prim: "gather", in: gens{"i": ints(0, 6)}, src: []string{
			"program p(x f64[6,4], i i32[4]) {\n y = gather(x, i)\n return y\n}",
			"program p(x f64[2,6,2], i i32[2,2]) {\n y = gather(x, i) axis=1\n return y\n}",
			"program p(x f64[6,0], i i32[2]) {\n y = gather(x, i)\n return y\n}",
			"program p(x f64[6,2], i i32[0]) {\n y = gather(x, i)\n return y\n}",
			"program p(x f64[2,6], i i32[]) {\n y = gather(x, i) axis=1\n return y\n}",
			"program p(x f64[1,7], i i32[1]) {\n y = gather(x, i) axis=1\n return y\n}",
		}}),
		at(row{prim: "scatter_add", in: gens{"i": ints(0, 6)}, reassociates: true, src: []string{
			"program p(x f64[6,4], i i32[4], u f64[4,4]) {\n y = scatter_add(x, i, u)\n return y\n}",
			"program p(x f64[2,6,2], i i32[2,4], u f64[2,2,4,2]) {\n y = scatter_add(x, i, u) axis=1\n return y\n}",
			"program p(x f64[6,2], i i32[6], u f64[6,2]) {\n v = neg(u)\n w = scatter_add(x, i, v)\n y = neg(w)\n return y\n}",
			"program p(x f64[6,0], i i32[2], u f64[2,0]) {\n y = scatter_add(x, i, u)\n return y\n}",
			"program p(x f64[6], i i32[0], u f64[0]) {\n y = scatter_add(x, i, u)\n return y\n}",
			"program p(x f64[2,6], i i32[], u f64[2]) {\n y = scatter_add(x, i, u) axis=1\n return y\n}",
			"program p(x f64[1,7], i i32[1], u f64[1,1]) {\n y = scatter_add(x, i, u) axis=1\n return y\n}",
		}}),
		at(row{prim: "one_hot", in: gens{"i": ints(-1, 4)}, src: []string{
			"program p(i i32[4,2], x f64[4,2,3]) {\n h = one_hot(i) num_classes=3 dtype=f64\n y = mul(x, h)\n return y, h\n}",
			"program p(i i32[0], x f64[0,3]) {\n h = one_hot(i) num_classes=3 dtype=f64\n y = mul(x, h)\n return y\n}",
			"program p(i i32[], x f64[1]) {\n h = one_hot(i) num_classes=1 dtype=f64\n y = mul(x, h)\n return y\n}",
			"program p(i i32[4]) {\n h = one_hot(i) dtype=bool\n return h\n}",
		}}),
		at(row{prim: "sharding_constraint", reassociates: true, src: []string{
			"program p(x f64[4,4]) {\n y = sharding_constraint(x) spec=\"_,a\"\n return y\n}",
			"program p(x f64[4,4]) {\n y = sharding_constraint(x) spec=\"b.a\"\n return y\n}",
			"program p(x f64[2,4,4]) {\n y = sharding_constraint(x) spec=\"_,b,a\"\n return y\n}",
			"program p(x f64[4,4]) {\n s = reduce_sum(x) axes=[0] unordered=true\n y = sharding_constraint(s) spec=\"a\"\n return y\n}",
			"program p(x f64[0,4]) {\n y = sharding_constraint(x) spec=\"a\"\n return y\n}",
			"program p(x f64[1,4]) {\n y = sharding_constraint(x)\n return y\n}",
		}}),
	}
}
