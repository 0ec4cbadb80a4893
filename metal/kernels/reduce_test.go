package kernels_test

import "testing"

// TestReduce compares reductions of lines and columns, short and of several chunks.
func TestReduce(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16", "i32", "u32", "u8", "bool"} {
		t.Run(d, func(t *testing.T) {
			p := &program{}
			p.input("x", d+"[3,31,9]")
			p.input("line", d+"[1500]")
			p.input("lines", d+"[2,1030]")
			p.input("columns", d+"[300,5]")
			p.input("none", d+"[3,0]")
			p.input("nobody", d+"[0,3]")
			ops := []string{"reduce_max", "reduce_min", "reduce_sum", "reduce_prod"}
			switch d {
			case "bool":
				ops = ops[:2]
			case "f32", "bf16", "f16":
				ops = ops[:3]
			}
			for _, op := range ops {
				for _, axes := range []string{"0", "1", "2", "0,1", "0,2", "1,2", "0,1,2"} {
					p.eq("%s(x) axes=[%s]", op, axes)
					if op == "reduce_sum" {
						p.eq("%s(x) axes=[%s] unordered=true", op, axes)
					}
				}
				more := ""
				if op == "reduce_sum" {
					more = " unordered=true"
				}
				p.eq("%s(line) axes=[0]%s", op, more)
				p.eq("%s(lines) axes=[0,1]%s", op, more)
				p.eq("%s(lines) axes=[1]", op)
				p.eq("%s(columns) axes=[0]%s", op, more)
				if d != "bool" || op == "reduce_max" {
					p.eq("%s(none) axes=[1]", op)
				}
				p.eq("%s(nobody) axes=[1]", op)
			}
			p.options.Instructions = ops
			p.check(t, false)
		})
	}
}

// TestReduceSpecial compares extremes and sums of zeros, infinities and NaNs.
func TestReduceSpecial(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16"} {
		p := &program{fill: special}
		p.input("x", d+"[200,3]")
		p.input("y", d+"[3,200]")
		p.input("z", d+"[50,41]") // with several NaNs in a line
		for _, op := range []string{"reduce_max", "reduce_min", "reduce_sum"} {
			p.eq("%s(x) axes=[1]", op)
			p.eq("%s(z) axes=[1]", op)
			p.eq("%s(y) axes=[0]", op)
		}
		p.eq("argmax(x) axis=1 index_dtype=i32")
		p.eq("argmax(z) axis=1 index_dtype=i32")
		p.eq("argmin(z) axis=1 index_dtype=i32")
		p.eq("argmin(x) axis=1 index_dtype=i32")
		p.eq("argmax(y) axis=0 index_dtype=i32")
		p.eq("logsumexp(x) axis=1")
		p.options.Instructions = []string{"reduce_max", "reduce_min", "reduce_sum", "argmax", "argmin", "logsumexp"}
		p.check(t, false)
	}
}

// TestAlong compares what goes along lines.
func TestAlong(t *testing.T) {
	p := &program{}
	for _, d := range []string{"f32", "bf16", "f16", "i32", "u32", "u8"} {
		x := "x" + d
		p.input(x, d+"[3,100,5]")
		p.eq("cumsum(%s) axis=1", x)
		p.eq("cumsum(%s) axis=2 reverse=true", x)
		p.eq("argmax(%s) axis=1 index_dtype=i32", x)
		p.eq("argmin(%s) axis=2 index_dtype=u32", x)
		p.eq("iota() dtype=%s shape=[2,300,3] dimension=1", d)
		if d[0] == 'f' || d[0] == 'b' {
			p.eq("logsumexp(%s) axis=1", x)
			p.eq("logsumexp(%s) axis=2", x)
		}
	}
	p.options.Instructions = []string{"cumsum", "argmax", "argmin", "iota", "logsumexp"}
	p.check(t, false)
	p = &program{mesh: "dp=2", place: map[string]string{"x": "_,dp"}}
	p.input("x", "f32[3,4]")
	v := p.eq("iota() dtype=f32 shape=[3,4] dimension=1")
	p.eq("mul(x, %s)", v)
	p.options.Instructions = []string{"iota"}
	p.check(t, false)
}
