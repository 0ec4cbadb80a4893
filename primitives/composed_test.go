package primitives_test

func composedRows() []row {
	return []row{
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
	}
}
