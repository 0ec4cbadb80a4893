package primitives_test

import "strings"

// alongSrc returns the usual programs for a function along an axis, whose arguments
// have the same shape.
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

func attentionSrc(q, k, params string) string {
	return "program p(q f64[" + q + "], k f64[" + k + "], v f64[" + k + "]) {\n out, lse = attention(q, k, v)" + params + "\n return out, lse\n}"
}

// recurrenceSrc returns a recurrence with arguments of these shapes. with are its optional arguments.
func recurrenceSrc(q, v, g, s, with string) string {
	in, args, params := recurrenceArgs(q, v, g, s, with)
	return "program p(" + in + ") {\n out, last = recurrence(q, k, v, g, s" + args + ")" + params + "\n return out, last\n}"
}

func recurrenceGradSrc(q, v, g, s, with string) string {
	in, args, params := recurrenceArgs(q, v, g, s, with)
	results := "dq, dk, dv, dg, ds"
	if strings.Contains(with, "rates") {
		results += ", db"
	}
	return "program p(" + in + ", y f64[" + v + "], z f64[" + s + "]) {\n " + results + " = recurrence_grad(q, k, v, g, s, y, z" + args + ")" + params + "\n return " + results + "\n}"
}

func recurrenceArgs(q, v, g, s, with string) (in, args, params string) {
	in = "q f64[" + q + "], k f64[" + q + "], v f64[" + v + "], g f64[" + g + "], s f64[" + s + "]"
	if strings.Contains(with, "rates") {
		in, args, params = in+", b f64["+strings.Join(strings.Split(v, ",")[:3], ",")+"]", args+", b", params+" rates=true"
	}
	if strings.Contains(with, "lengths") {
		in, args, params = in+", n i32["+strings.Split(v, ",")[0]+"]", args+", n", params+" lengths=true"
	}
	return in, args, params
}

// convolutionSrc returns a convolution of x with weights and a state of these shapes. with are its options.
func convolutionSrc(x, w, s, with string) string {
	in, args, params := convolutionArgs(x, w, s, with)
	return "program p(" + in + ") {\n y, last = causal_convolution(x, w, s" + args + ")" + params + "\n return y, last\n}"
}

func convolutionGradSrc(x, w, s, with string) string {
	in, args, params := convolutionArgs(x, w, s, with)
	results := "dx, dw, ds"
	if strings.Contains(with, "bias") {
		results += ", db"
	}
	return "program p(" + in + ", y f64[" + x + "], z f64[" + s + "]) {\n " + results + " = causal_convolution_grad(x, w, s, y, z" + args + ")" + params + "\n return " + results + "\n}"
}

func convolutionArgs(x, w, s, with string) (in, args, params string) {
	in = "x f64[" + x + "], w f64[" + w + "], s f64[" + s + "]"
	if strings.Contains(with, "bias") {
		in, args = in+", b f64["+strings.Split(w, ",")[0]+"]", args+", b"
	}
	if strings.Contains(with, "lengths") {
		in, args = in+", n i32["+strings.Split(x, ",")[0]+"]", args+", n"
	}
	for _, option := range strings.Fields(with) {
		params += " " + option + "=true"
	}
	return in, args, params
}

func attentionGradSrc(q, k, l, params string) string {
	src := "program p(q i32[" + q + "], k i32[" + k + "], v i32[" + k + "], out i32[" + q + "], lse i32[" + l + "], dout i32[" + q + "], dlse i32[" + l + "]) {\n"
	for _, x := range []string{"q", "k", "v", "out", "lse", "dout", "dlse"} {
		src += " f" + x + " = convert_element_type(" + x + ") dtype=f64\n"
	}
	return src + " dq, dk, dv = attention_grad(fq, fk, fv, fout, flse, fdout, fdlse)" + params + "\n return dq, dk, dv\n}"
}

func adamWSrc(shape, params string) string {
	src := "program p("
	for _, x := range []string{"p", "m", "v", "g"} {
		src += x + " i32[" + shape + "], "
	}
	src += "lr i32[], step i32[], scale i32[]) {\n"
	for _, x := range []string{"p f64", "m f64", "v f64", "g f64", "lr f32", "scale f32"} {
		name, dtype, _ := strings.Cut(x, " ")
		src += " f" + name + " = convert_element_type(" + name + ") dtype=" + dtype + "\n"
	}
	return src + " p2, m2, v2 = adamw(fp, fm, fv, fg, flr, step, fscale)" + params + "\n return p2, m2, v2\n}"
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
			"program p(ids i32[4,2], ct f64[4,2,3]) {\n y = embedding_grad(ids, ct) num=5 tree=4\n return y\n}",
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
		at(row{prim: "layer_norm", src: []string{
			"program p(x f64[4,2,6], gain f64[6], bias f64[6]) {\n y = layer_norm(x, gain, bias) eps=0.1\n return y\n}",
			"program p(x f64[5], gain f64[5], bias f64[5]) {\n y = layer_norm(x, gain, bias) eps=0.1\n return y\n}",
			"program p(x f64[0,6], gain f64[6], bias f64[6]) {\n y = layer_norm(x, gain, bias) eps=0.1\n return y\n}",
			"program p(x f64[2,0], gain f64[0], bias f64[0]) {\n y = layer_norm(x, gain, bias) eps=0.1\n return y\n}",
			"program p(x f64[4,1], gain f64[1], bias f64[1]) {\n y = layer_norm(x, gain, bias) eps=0.1\n return y\n}",
		}}),
		at(row{prim: "layer_norm_grad", tol16: 4e-2, src: []string{
			"program p(x f64[4,2,6], gain f64[6], ct f64[4,2,6]) {\n y = layer_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
			"program p(x f64[5], gain f64[5], ct f64[5]) {\n y = layer_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
			"program p(x f64[0,6], gain f64[6], ct f64[0,6]) {\n y = layer_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
			"program p(x f64[2,0], gain f64[0], ct f64[2,0]) {\n y = layer_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
			"program p(x f64[4,1], gain f64[1], ct f64[4,1]) {\n y = layer_norm_grad(x, gain, ct) eps=0.1\n return y\n}",
		}}),
		at(row{prim: "layer_norm_gain_grad", reassociates: true, tol16: 4e-2, src: []string{
			"program p(x f64[4,2,6], ct f64[4,2,6]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1\n return y, z\n}",
			"program p(x f64[5], ct f64[5]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1\n return y, z\n}",
			"program p(x f64[0,6], ct f64[0,6]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1\n return y, z\n}",
			"program p(x f64[2,0], ct f64[2,0]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1\n return y, z\n}",
			"program p(x f64[4,1], ct f64[4,1]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1\n return y, z\n}",
			"program p(x f64[4,2,3], ct f64[4,2,3]) {\n y, z = layer_norm_gain_grad(x, ct) eps=0.1 tree=2\n return y, z\n}",
		}}),
		at(row{prim: "cross_entropy", in: gens{"labels": ints(-1, 3)}, src: []string{
			"program p(logits f64[4,2,3], labels i32[4,2]) {\n loss = cross_entropy(logits, labels)\n return loss\n}",
			"program p(logits f64[3], labels i32[]) {\n loss = cross_entropy(logits, labels)\n return loss\n}",
			"program p(logits f64[0,3], labels i32[0]) {\n loss = cross_entropy(logits, labels)\n return loss\n}",
			"program p(logits f64[1,3], labels i32[1]) {\n loss = cross_entropy(logits, labels)\n return loss\n}",
		}}),
		at(row{prim: "cross_entropy_grad", in: gens{"labels": ints(-1, 3)}, tol16: -1, src: []string{
			"program p(logits f64[4,2,3], labels i32[4,2], c f64[4,2]) {\n d = cross_entropy_grad(logits, labels, c)\n return d\n}",
			"program p(logits f64[3], labels i32[], c f64[]) {\n d = cross_entropy_grad(logits, labels, c)\n return d\n}",
			"program p(logits f64[0,3], labels i32[0], c f64[0]) {\n d = cross_entropy_grad(logits, labels, c)\n return d\n}",
			"program p(logits f64[1,3], labels i32[1], c f64[1]) {\n d = cross_entropy_grad(logits, labels, c)\n return d\n}",
		}}),
		at(row{prim: "rope", src: []string{
			"program p(x f64[2,4,2,6], at i32[4]) {\n y = rope(x, at)\n return y\n}",
			"program p(x f64[2,4,2,4], at i32[2,4]) {\n y = rope(x, at) base=100 interleaved=true\n return y\n}",
			"program p(x f64[2,4,2,4], at i32[4]) {\n y = rope(x, at) base=7 inverse=true\n return y\n}",
			"program p(x f64[2,4,2,6], at i32[2,4]) {\n y = rope(x, at) width=4 frequencies=[0.5,-2] magnitude=1.5\n return y\n}",
			"program p(x f64[2,4,1,6], at i32[4]) {\n y = rope(x, at) width=2 magnitude=0.5 interleaved=true inverse=true\n return y\n}",
			"program p(x f64[1,2,1,0], at i32[2]) {\n y = rope(x, at)\n return y\n}",
			"program p(x f64[0,2,1,2], at i32[0,2]) {\n y = rope(x, at)\n return y\n}",
		}}),
		at(row{prim: "attention", in: gens{"n": ints(1, 4), "t": ints(0, 3)}, src: []string{
			attentionSrc("2,3,4,2", "2,3,2,2", ""),
			attentionSrc("2,5,2,2", "2,5,2,2", " scale=0.3 full=true"),
			attentionSrc("1,1,1,1", "1,1,1,1", ""),
			attentionSrc("2,0,2,2", "2,0,2,2", ""),
			attentionSrc("0,2,1,2", "0,2,1,2", ""),
			attentionSrc("2,3,0,2", "2,3,0,2", ""),
			attentionSrc("2,66,1,2", "2,66,1,2", ""),
			"program p(q f64[2,3,4,2], k f64[2,5,2,2], v f64[2,5,2,3], n i32[2], t i32[2], sinks f64[4]) {\n out, lse = attention(q, k, v, n, t, sinks) lengths=true start=true sinks=true\n return out, lse\n}",
			"program p(q f64[2,2,2,2], k f64[2,4,1,2], v f64[2,4,1,1], b f64[2,2,2,4]) {\n out, lse = attention(q, k, v, b) window=3 bias=true\n return out, lse\n}",
			"program p(q f64[2,1,4,2], k f64[2,4,2,2], v f64[2,4,2,2], n i32[2], sinks f64[4], b f64[1,1,1,4]) {\n out, lse = attention(q, k, v, n, sinks, b) soft_cap=0.5 lengths=true sinks=true bias=true\n return out, lse\n}",
			"program p(q f64[2,2,2,2], k f64[2,0,2,2], v f64[2,0,2,2]) {\n out, lse = attention(q, k, v) full=true\n return out\n}",
		}}),
		at(row{prim: "cache_update", in: gens{"t": ints(0, 3)}, src: []string{
			"program p(cache f64[2,4,2,3], x f64[2,2,2,3], t i32[2]) {\n y = cache_update(cache, x, t)\n return y\n}",
			"program p(cache f64[2,4], x f64[2,1], t i32[2]) {\n y = cache_update(cache, x, t)\n return y\n}",
			"program p(cache f64[0,4,2], x f64[0,1,2], t i32[0]) {\n y = cache_update(cache, x, t)\n return y\n}",
			"program p(cache f64[2,3,1], x f64[2,0,1], t i32[2]) {\n y = cache_update(cache, x, t)\n return y\n}",
		}}),
		// With bf16, lse would have another type.
		at(row{prim: "recurrence", reassociates: true, in: gens{"g": uniform(-1, 0), "b": uniform(0, 1), "n": ints(0, 4)}, src: []string{
			recurrenceSrc("2,3,2,2", "2,3,4,3", "2,3,4", "2,4,2,3", ""),
			recurrenceSrc("1,6,1,3", "1,6,2,2", "1,6,2,3", "1,2,3,2", "rates"),
			recurrenceSrc("2,3,2,2", "2,3,2,1", "2,3,2", "2,2,2,1", "rates lengths"),
			recurrenceSrc("1,3,4,1", "1,3,4,2", "1,3,4,1", "1,4,1,2", "lengths"),
			recurrenceSrc("1,66,2,2", "1,66,2,2", "1,66,2", "1,2,2,2", "rates"),
			recurrenceSrc("2,0,2,2", "2,0,2,2", "2,0,2", "2,2,2,2", "rates"),
			recurrenceSrc("2,3,0,2", "2,3,0,2", "2,3,0", "2,0,2,2", ""),
			recurrenceSrc("1,1,1,1", "1,1,1,1", "1,1,1", "1,1,1,1", "rates"),
		}}),
		at(row{prim: "recurrence_grad", reassociates: true, in: gens{"g": uniform(-1, 0), "b": uniform(0, 1), "n": ints(0, 4)}, src: []string{
			recurrenceGradSrc("2,3,2,2", "2,3,4,3", "2,3,4", "2,4,2,3", ""),
			recurrenceGradSrc("1,6,1,3", "1,6,2,2", "1,6,2,3", "1,2,3,2", "rates"),
			recurrenceGradSrc("2,3,2,2", "2,3,2,1", "2,3,2", "2,2,2,1", "rates lengths"),
			recurrenceGradSrc("1,18,1,2", "1,18,1,2", "1,18,1,2", "1,1,2,2", "rates"),
			recurrenceGradSrc("2,0,2,2", "2,0,2,2", "2,0,2", "2,2,2,2", "rates"),
			recurrenceGradSrc("1,1,1,1", "1,1,1,1", "1,1,1", "1,1,1,1", ""),
		}}),
		at(row{prim: "causal_convolution", in: gens{"n": ints(0, 4)}, src: []string{
			convolutionSrc("2,3,4", "4,3", "2,2,4", ""),
			convolutionSrc("4,5,2", "2,4", "4,3,2", "silu bias lengths"),
			convolutionSrc("1,3,6", "6,8", "1,7,6", "silu"),
			convolutionSrc("2,3,4", "4,1", "2,0,4", "bias lengths"),
			convolutionSrc("2,0,4", "4,3", "2,2,4", "silu"),
			convolutionSrc("2,3,0", "0,2", "2,1,0", "bias"),
			convolutionSrc("0,3,2", "2,2", "0,1,2", "lengths"),
			convolutionSrc("1,1,1", "1,2", "1,1,1", "silu bias"),
		}}),
		at(row{prim: "causal_convolution_grad", in: gens{"n": ints(0, 4)}, src: []string{
			convolutionGradSrc("2,3,4", "4,3", "2,2,4", ""),
			convolutionGradSrc("4,5,2", "2,4", "4,3,2", "silu bias lengths"),
			convolutionGradSrc("1,3,2", "2,8", "1,7,2", "silu"),
			convolutionGradSrc("2,3,4", "4,1", "2,0,4", "bias lengths"),
			convolutionGradSrc("2,0,4", "4,3", "2,2,4", "silu bias"),
			convolutionGradSrc("1,1,1", "1,2", "1,1,1", "silu bias"),
		}}),
		at(row{prim: "attention_grad", in: gens{"lse": ints(2, 4), "flse": uniform(1, 2)}, tol16: -1, src: []string{
			"program p(q f64[2,2,2,2], k f64[2,3,1,2], v f64[2,3,1,2], out f64[2,2,2,2], flse f64[2,2,2], dout f64[2,2,2,2], dlse f64[2,2,2], b f64[1,2,2,3]) {\n dq, dk, dv = attention_grad(q, k, v, out, flse, dout, dlse, b) window=2 soft_cap=1 bias=true\n return dq, dk, dv\n}",
			attentionGradSrc("2,3,4,2", "2,3,2,2", "2,4,3", ""),
			attentionGradSrc("2,0,2,2", "2,0,2,2", "2,2,0", ""),
			attentionGradSrc("2,5,1,2", "2,5,1,2", "2,1,5", " full=true"),
		}}),
		// Its inputs are integers because it has no derivative.
		at(row{prim: "adamw", in: gens{"v": ints(0, 3), "step": ints(1, 9)}, src: []string{
			adamWSrc("4,6", " b1=0.9 b2=0.95 eps=1e-08 weight_decay=0.1"),
			adamWSrc("2,0", " b1=0.9 b2=0.95 eps=0.25"),
			adamWSrc("1,4,1", " eps=0.001"),
			adamWSrc("", " b1=0.5 eps=0.5"),
		}}),
	}
}
