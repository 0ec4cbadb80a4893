package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// TestRows compares what is done to rows shorter and longer than a simdgroup, and than
// what one simdgroup does, along the last axis and others.
func TestRows(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16"} {
		t.Run(d, func(t *testing.T) {
			p := &program{}
			for _, n := range []int{1, 31, 33, 1300} {
				rows := 5
				if n > 1000 {
					rows = 2
				}
				x, g, b := fmt.Sprintf("x%d", n), fmt.Sprintf("g%d", n), fmt.Sprintf("b%d", n)
				p.input(x, fmt.Sprintf("%s[%d,%d]", d, rows, n))
				p.input("ct"+x, fmt.Sprintf("%s[%d,%d]", d, rows, n))
				p.input(g, fmt.Sprintf("%s[%d]", d, n))
				p.input(b, fmt.Sprintf("%s[%d]", d, n))
				p.eq("softmax(%s) axis=1", x)
				p.eq("softmax_grad(%s, ct%s) axis=1", x, x)
				p.eq("log_softmax(%s) axis=1", x)
				p.eq("log_softmax_grad(%s, ct%s) axis=1", x, x)
				p.eq("logsumexp(%s) axis=1", x)
				p.eq("rms_norm(%s, %s) eps=0.00001", x, g)
				p.eq("rms_norm_gain_grad(%s, ct%s) eps=0.00001", x, x)
				if n > 1 { // one number's variance is 0, and its gradients are: rounding is all that is left
					p.eq("rms_norm_grad(%s, %s, ct%s) eps=0.00001", x, g, x)
					p.eq("layer_norm(%s, %s, %s) eps=0.00001", x, g, b)
					p.eq("layer_norm_grad(%s, %s, ct%s) eps=0.00001", x, g, x)
					p.gainGrad(x)
				}
			}
			p.input("y", d+"[3,7,2,5]")
			p.eq("softmax(y) axis=1")
			p.eq("softmax_grad(y, y) axis=0")
			p.eq("log_softmax(y) axis=2")
			p.eq("log_softmax_grad(y, y) axis=1")
			p.eq("logsumexp(y) axis=1")
			p.options.Instructions = []string{"softmax", "softmax_grad", "log_softmax", "log_softmax_grad", "logsumexp",
				"rms_norm", "rms_norm_grad", "rms_norm_gain_grad", "layer_norm", "layer_norm_grad", "layer_norm_gain_grad"}
			p.check(t, false)
		})
	}
}

// gainGrad adds the gradients of layer_norm's gain and bias.
func (p *program) gainGrad(x string) {
	n := len(p.body)
	gain, bias := fmt.Sprintf("gain%d", n), fmt.Sprintf("bias%d", n)
	p.body = append(p.body, fmt.Sprintf("%s, %s = layer_norm_gain_grad(%s, ct%s) eps=0.00001", gain, bias, x, x))
	p.out = append(p.out, gain, bias)
}

// TestGainGradChunks sums more rows than a chunk has.
func TestGainGradChunks(t *testing.T) {
	p := &program{}
	p.input("x", "f32[513,33]")
	p.input("ctx", "f32[513,33]")
	p.eq("rms_norm_gain_grad(x, ctx) eps=0.00001")
	p.gainGrad("x")
	p.options.Instructions = []string{"rms_norm_gain_grad", "layer_norm_gain_grad"}
	p.check(t, false)
}

// TestRowsSpecial compares lines with infinities and NaNs, and without elements.
func TestRowsSpecial(t *testing.T) {
	lines := [][]float64{
		{math.Inf(-1), math.Inf(-1), math.Inf(-1)},
		{math.Inf(-1), 2, math.Inf(-1)},
		{1, math.Inf(1), 2},
		{math.Inf(1), math.Inf(-1), 0},
		{math.NaN(), 1, 2},
		{math.Inf(1), math.NaN(), 1},
		{80, -80, 1e30},
		{-1e30, -1e30, -1e30},
		{0, 0, 0},
	}
	p := &program{fill: func(name string, x array.Array, _ *rand.Rand) {
		var all []float64
		if name == "x" {
			for _, l := range lines {
				all = append(all, l...)
			}
			if err := x.SetFloat64s(all); err != nil {
				panic(err)
			}
		}
	}}
	p.input("x", fmt.Sprintf("f32[%d,3]", len(lines)))
	p.input("none", "f32[4,0]")
	p.input("empty", "f32[0,4]")
	p.eq("softmax(x) axis=1")
	p.eq("log_softmax(x) axis=1")
	p.eq("logsumexp(x) axis=1")
	p.eq("logsumexp(none) axis=1")
	p.eq("softmax(empty) axis=1")
	p.options.Instructions = []string{"softmax", "log_softmax", "logsumexp"}
	p.check(t, false)
}

// Gradients of softmax keep the difference where one element is almost 1. Lines of NaN and of zeros have no largest element.
func TestSoftmaxGradOfExtremes(t *testing.T) {
	nan := math.NaN()
	y := []float64{1, 5e-8, 0, 0.9999999, 1e-7, 1e-20, 0.5, 0.5, 0, 0, 0, 0, nan, nan, nan, 0.3, nan, 0.7, 1e-9, 0, 1}
	ct := []float64{840, 12, -3, -1e4, 9e3, 1, 700, -700, 1, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1e6, -5, 1e6}
	p := &program{fill: func(name string, x array.Array, _ *rand.Rand) {
		if err := x.SetFloat64s(map[string][]float64{"y": y, "ct": ct}[name]); err != nil {
			panic(err)
		}
	}}
	p.input("y", "f32[7,3]")
	p.input("ct", "f32[7,3]")
	p.eq("softmax_grad(y, ct) axis=1")
	p.options.Instructions = []string{"softmax_grad"}
	p.check(t, false)
}

// TestRope turns pairs of both kinds, forth and back, whole heads and parts of them, at
// positions of all sequences and of each, also where tokens are split over ranks.
func TestRope(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16"} {
		for _, mesh := range []string{"", "dp=2,ep=2"} {
			p := &program{mesh: mesh, fill: func(_ string, x array.Array, r *rand.Rand) {
				if x.Type.DType == graph.I32 {
					for i := range array.Data[int32](x) {
						array.Data[int32](x)[i] = int32(r.IntN(131000))
					}
				}
			}}
			if mesh != "" {
				p.place = map[string]string{"x": "dp,ep"}
			}
			p.input("x", d+"[2,6,3,10]")
			p.input("all", "i32[6]")
			p.input("each", "i32[2,6]")
			p.eq("rope(x, all)")
			p.eq("rope(x, each) base=500000 interleaved=true")
			p.eq("rope(x, each) inverse=true width=4 magnitude=1.25")
			p.eq("rope(x, all) inverse=true interleaved=true width=6 frequencies=[1,0.5,0.001]")
			p.options.Instructions = []string{"rope"}
			p.check(t, false)
		}
	}
}

// labels sets labels below n, and some to the one without loss.
func labels(n int) func(string, array.Array, *rand.Rand) {
	return func(_ string, x array.Array, r *rand.Rand) {
		if x.Type.DType != graph.I32 {
			return
		}
		for i := range array.Data[int32](x) {
			array.Data[int32](x)[i] = int32(r.IntN(n+1) - 1)
		}
	}
}

func TestCrossEntropy(t *testing.T) {
	for _, d := range []string{"f32", "bf16", "f16"} {
		for _, n := range []int{1, 33, 1100} {
			p := &program{fill: labels(n), mesh: "dp=2", place: map[string]string{"x": "dp", "labels": "dp", "ct": "dp"}}
			p.input("x", fmt.Sprintf("%s[4,3,%d]", d, n))
			p.input("labels", "i32[4,3]")
			p.input("ct", "f32[4,3]")
			p.eq("cross_entropy(x, labels)")
			p.eq("cross_entropy_grad(x, labels, ct)")
			p.options.Instructions = []string{"cross_entropy", "cross_entropy_grad"}
			p.check(t, false)
		}
	}
}

// TestWrongLabel reports the first wrong label by its place in the whole, as the host
// does, on the device too.
func TestWrongLabel(t *testing.T) {
	for _, f := range []string{"cross_entropy(x, labels)", "cross_entropy_grad(x, labels, ct)"} {
		p := &program{mesh: "dp=2", place: map[string]string{"x": "dp", "labels": "dp", "ct": "dp"}, fill: func(_ string, x array.Array, _ *rand.Rand) {
			if x.Type.DType == graph.I32 {
				copy(array.Data[int32](x), []int32{0, 1, 2, 3, -1, 4, 0, 1, 7, -2, 3, 9})
			}
		}}
		p.input("x", "f32[4,3,5]")
		p.input("labels", "i32[4,3]")
		p.input("ct", "f32[4,3]")
		p.eq("%s", f)
		p.options.Fails = "label 7 at [2 2], want -1 to 4"
		p.check(t, false)
	}
}
