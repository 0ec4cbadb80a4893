package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
)

// raggedRows is a program that works on rows in expert order.
func raggedRows(d string, tokens, align, width int, mesh string) *program {
	p := &program{mesh: mesh}
	if mesh != "" {
		p.place = map[string]string{"idx": "ep", "x": "ep", "w": "ep"}
	}
	rows := ep.Layer{Experts: 4, Align: align}.Rows(2 * tokens)
	p.input("idx", fmt.Sprintf("i32[%d,2]", tokens))
	p.input("x", fmt.Sprintf("%s[%d,%d]", d, tokens, width))
	p.input("w", fmt.Sprintf("%s[%d,2]", d, tokens))
	p.input("g", fmt.Sprintf("%s[%d]", d, width))
	p.input("s", d+"[]")
	layer := "experts=4"
	if align > 1 {
		layer += fmt.Sprintf(" align=%d", align)
	}
	shape := fmt.Sprintf("shape=[%d,%d]", rows, width)
	p.body = []string{
		"r, drop, n, pad, demand = ep_prepare(idx) " + layer,
		"q, rw = ep_dispatch(x, w, r) " + layer,
		"a = exp(q)",
		"b = broadcast_in_dim(rw) " + shape + " dims=[0]",
		"c = broadcast_in_dim(g) " + shape + " dims=[1]",
		"e = mul(q, b)",
		"f = add(e, c)",
		"one = full() value=2 dtype=" + d + " " + shape,
		"h = max(f, one)",
		"sum = reduce_sum(h) axes=[1]",
		"top = reduce_max(q) axes=[1]",
		"both = add(sum, top)",
		"k = broadcast_in_dim(both) " + shape + " dims=[0]",
		fmt.Sprintf("l = slice(h) start_indices=[0,1] limit_indices=[%d,%d] strides=[1,1]", rows, width),
		"m = concatenate(l, h) dimension=1",
		fmt.Sprintf("o = slice(m) start_indices=[0,%d] limit_indices=[%d,%d] strides=[1,1]", width-1, rows, 2*width-1),
		"v = rev(o) dimensions=[1]",
		"y = add_any(k, a, v)",
		"z, z2 = swiglu_grad(y, q, v)",
		"t = add(z, z2)",
		"out = ep_combine(t, r) " + layer,
		"outh = ep_combine(h, r) " + layer,
	}
	p.out = []string{"out", "outh", "drop"}
	return p
}

// TestRagged compares rows of experts: with and without room between zones, with
// experts that have none or all, on one rank and on two.
func TestRagged(t *testing.T) {
	for _, c := range []struct {
		d                    string
		tokens, align, width int
		mesh                 string
		experts              []int // that tokens go to, by turns
	}{
		{"f32", 32, 1, 8, "", []int{0, 1, 2, 3}},
		{"f32", 32, 4, 5, "", []int{0, 2}},
		{"bf16", 6, 4, 8, "ep=2", []int{3, 3}},
		{"f32", 20, 8, 12, "ep=2", []int{1, 0}},
		{"f16", 8, 2, 3, "dp=2,ep=2", []int{0, 1, 2, 3, 1}},
		{"f32", 0, 4, 8, "", nil},
	} {
		for _, optimize := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v/%v", c, optimize), func(t *testing.T) {
				p := raggedRows(c.d, c.tokens, c.align, c.width, c.mesh)
				p.fill = func(name string, x array.Array, r *rand.Rand) {
					if x.Type.DType == graph.I32 {
						for i := range array.Data[int32](x) {
							array.Data[int32](x)[i] = int32(c.experts[i%len(c.experts)])
						}
					}
				}
				if !optimize && c.tokens > 0 {
					p.options.Instructions = []string{"exp", "mul", "broadcast_in_dim", "max", "reduce_sum", "reduce_max", "slice", "concatenate", "rev", "add_any", "swiglu_grad"}
				}
				p.check(t, optimize)
			})
		}
	}
}
