package primitives_test

import "strings"

// alongSrc is the usual programs of a function of values of one shape along an
// axis.
func alongSrc(op string, args ...string) []string {
	var src []string
	for _, c := range [][2]string{{"4,2,6", "2"}, {"4,6,2", "1"}, {"4,2", "0"}, {"0,3", "1"}, {"2,0", "1"}, {"2,1", "1"}, {"5", "0"}} {
		var in []string
		for _, a := range args {
			in = append(in, a+" f64["+c[0]+"]")
		}
		src = append(src, "program p("+strings.Join(in, ", ")+") {\n z = "+op+"("+strings.Join(args, ", ")+") axis="+c[1]+"\n return z\n}")
	}
	return src
}

func composedRows() []row {
	return []row{
		at(row{prim: "softmax", src: alongSrc("softmax", "x")}),
		at(row{prim: "softmax_grad", src: alongSrc("softmax_grad", "y", "ct"), tol16: 4e-2}),
		at(row{prim: "log_softmax", src: alongSrc("log_softmax", "x")}),
		at(row{prim: "log_softmax_grad", src: alongSrc("log_softmax_grad", "y", "ct"), tol16: 4e-2}),
		at(row{prim: "logsumexp", src: alongSrc("logsumexp", "x")}),
		at(row{prim: "rms_norm", src: []string{
			"program p(x f64[4,2,6], gain f64[6]) {\n y = rms_norm(x, gain) eps=1e-06\n return y\n}",
			"program p(x f64[5], gain f64[5]) {\n y = rms_norm(x, gain)\n return y\n}",
			"program p(x f64[0,6], gain f64[6]) {\n y = rms_norm(x, gain) eps=0.1\n return y\n}",
			"program p(x f64[2,0], gain f64[0]) {\n y = rms_norm(x, gain) eps=0.1\n return y\n}",
			"program p(x f64[4,1], gain f64[1]) {\n y = rms_norm(x, gain) eps=0.1\n return y\n}",
		}}),
		at(row{prim: "rms_norm_grad", src: []string{
			"program p(x f64[4,2,6], gain f64[6], ct f64[4,2,6]) {\n y = rms_norm_grad(x, gain, ct) eps=1e-06\n return y\n}",
			"program p(x f64[0,6], gain f64[6], ct f64[0,6]) {\n y = rms_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
			"program p(x f64[4,1], gain f64[1], ct f64[4,1]) {\n y = rms_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
		}, tol16: 4e-2}),
		at(row{prim: "rms_norm_gain_grad", reassociates: true, src: []string{
			"program p(x f64[4,2,6], ct f64[4,2,6]) {\n y = rms_norm_gain_grad(x, ct) eps=1e-06\n return y\n}",
			"program p(x f64[0,6], ct f64[0,6]) {\n y = rms_norm_gain_grad(x, ct) eps=0.1\n return y\n}",
			"program p(x f64[5], ct f64[5]) {\n y = rms_norm_gain_grad(x, ct) eps=0.1\n return y\n}",
			"program p(x f64[4,1], ct f64[4,1]) {\n y = rms_norm_gain_grad(x, ct) eps=0.1\n return y\n}",
		}}),
		at(row{prim: "embedding", src: []string{
			"program p(table f64[3,4], ids i32[4,2]) {\n y = embedding(table, ids)\n return y\n}",
			"program p(table f64[3,0], ids i32[2]) {\n y = embedding(table, ids)\n return y\n}",
			"program p(table f64[3,4], ids i32[0]) {\n y = embedding(table, ids)\n return y\n}",
			"program p(table f64[3,1], ids i32[]) {\n y = embedding(table, ids)\n return y\n}",
		}}),
		at(row{prim: "embedding_grad", reassociates: true, src: []string{
			"program p(ids i32[4,2], ct f64[4,2,6]) {\n y = embedding_grad(ids, ct) num=5\n return y\n}",
			"program p(ids i32[0], ct f64[0,2]) {\n y = embedding_grad(ids, ct) num=3\n return y\n}",
			"program p(ids i32[], ct f64[1]) {\n y = embedding_grad(ids, ct) num=3\n return y\n}",
		}}),
		at(row{prim: "silu", src: unarySrc("silu")}),
		at(row{prim: "silu_grad", src: binarySrc("silu_grad")}),
		at(row{prim: "swiglu", src: binarySrc("swiglu")}),
		at(row{prim: "swiglu_grad", src: []string{
			"program p(gate f64[4,2], up f64[4,2], ct f64[4,2]) {\n a, b = swiglu_grad(gate, up, ct)\n return a, b\n}",
			"program p(gate f64[4,2], up f64[4,2], ct f64[4,2]) {\n a, b = swiglu_grad(gate, up, ct)\n return b\n}",
			"program p(gate f64[2,0], up f64[2,0], ct f64[2,0]) {\n a, b = swiglu_grad(gate, up, ct)\n return a, b\n}",
			"program p(gate f64[1,4], up f64[1,4], ct f64[1,4]) {\n a, b = swiglu_grad(gate, up, ct)\n return a\n}",
		}}),
		at(row{prim: "gelu", src: append(unarySrc("gelu"), "program p(x f64[4,6]) {\n y = gelu(x) tanh=true\n return y\n}"),
			in: gens{"x": uniform(-3, 3)}}),
		at(row{prim: "gelu_grad", src: append(binarySrc("gelu_grad"), "program p(x f64[4,6], ct f64[4,6]) {\n y = gelu_grad(x, ct) tanh=true\n return y\n}"),
			in: gens{"x": uniform(-3, 3)}}),
	}
}
