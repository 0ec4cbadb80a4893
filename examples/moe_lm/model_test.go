package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// Training starts from weights of the sizes that params says, each drawn by
// itself, and from moments of zero, the same on every mesh.
func TestInitial(t *testing.T) {
	args, _ := tiny(t, "-width", "32", "-ffn", "64")
	c, o, _ := setup(t, args...)
	var first map[string]array.Array
	for _, mesh := range []string{"", "dp=2,ep=2", "ep=8", "dp=2,tp=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		tr := started(t, c, m, o.seed, runtime.Options{}, false)
		defer tr.Close()
		state := map[string]array.Array{}
		for name, a := range tr.State() {
			state[name], err = a.Get()
			require.NoError(t, err)
		}
		if first == nil {
			first = state
		}
		require.Equal(t, first, state, "mesh %s", mesh)
	}
	seen := map[float64]string{}
	for _, p := range c.params() {
		w := first[p.name].Float64s()
		var sum, squares float64
		for _, x := range w {
			sum, squares = sum+x, squares+x*x
		}
		mean, want := sum/float64(len(w)), 0.0
		if p.std == 0 {
			want = 1
		} else if other, ok := seen[w[0]/p.std]; ok {
			t.Errorf("%s and %s are drawn alike", other, p.name)
		} else {
			seen[w[0]/p.std] = p.name
		}
		std := math.Sqrt(squares/float64(len(w)) - mean*mean)
		near := 5 / math.Sqrt(float64(len(w))) // five standard errors
		if math.Abs(mean-want) > near*p.std || math.Abs(std-p.std) > near*p.std {
			t.Errorf("%s has mean %v and standard deviation %v, want %v and %v", p.name, mean, std, want, p.std)
		}
		for _, moment := range []string{"m/", "v/"} {
			for _, x := range first[moment+p.name].Float64s() {
				if x != 0 {
					t.Fatalf("%s%s has %v, want 0", moment, p.name, x)
				}
			}
		}
	}
}

// The norm is that of all gradients together, and longer ones are cut to -clip:
// after the first step the first moment is 1-beta1 of what is left of them.
// Every layer has its own experts' choices.
func TestStep(t *testing.T) {
	for _, clip := range []float64{0.5, 1e9} {
		args, _ := tiny(t)
		c, o, corpus := setup(t, args...)
		c.Clip = clip
		tr := started(t, c, o.mesh, o.seed, runtime.Options{}, true)
		defer tr.Close()
		inputs, targets, err := corpus.Batch(1, c.Batch, c.Seq)
		require.NoError(t, err)
		res, err := tr.train(context.Background(), 1, o.lr, inputs, targets)
		require.NoError(t, err)
		for l, row := range res.Demand {
			pairs := int64(0)
			for _, n := range row {
				pairs += n
			}
			if want := int64(c.Batch * c.Seq * c.TopK); pairs != want || len(row) != c.Experts || l > 0 && slices.Equal(row, res.Demand[0]) {
				t.Errorf("layer %d: choices %v, want %d, not those of layer 0 %v", l, row, want, res.Demand[0])
			}
		}
		var squares, moments float64
		for _, p := range c.params() {
			g, err := res.Results["grad/"+p.name].Get()
			require.NoError(t, err)
			for _, x := range g.Float64s() {
				squares += x * x
			}
			m, err := tr.State()["m/"+p.name].Get()
			require.NoError(t, err)
			for _, x := range m.Float64s() {
				moments += x * x
			}
		}
		norm := math.Sqrt(squares)
		if math.Abs(res.Norm-norm) > 1e-5*norm || norm < 1 {
			t.Errorf("the step says %v, the gradients have norm %v", res.Norm, norm)
		}
		left := math.Sqrt(moments) / (1 - beta1)
		if want := min(norm, clip); math.Abs(left-want) > 1e-5*want {
			t.Errorf("-clip %g leaves a norm of %v, want %v", clip, left, want)
		}
	}
}

// What the writer makes of the bytes so far is what the model makes of them in a
// batch, whatever follows them, and never drops.
func TestWriter(t *testing.T) {
	args, _ := tiny(t, "-capacity", "0.1", "-mesh", "")
	c, o, _ := setup(t, args...)
	tr := started(t, c, o.mesh, o.seed, runtime.Options{}, false)
	defer tr.Close()
	weights, err := tr.Weights(context.Background())
	require.NoError(t, err)
	free := c
	free.Capacity = 0
	ctx := context.Background()
	window := make([]int32, c.Seq)
	for i := range window {
		window[i] = int32(sentence[i])
	}
	var want []float32
	for name, c := range map[string]config{"dropless": free, "capacity": c} {
		w, err := newWriter(c, weights, nil)
		require.NoError(t, err)
		defer w.Close()
		for _, after := range []int32{0, 255} {
			for i := 6; i < len(window); i++ {
				window[i] = after
			}
			got, err := w.logits(ctx, window, 5)
			require.NoError(t, err)
			if want == nil {
				want = append(want, got...)
			}
			require.Equal(t, want, append([]float32{}, got...), "%s, followed by %d", name, after)
		}
		other, err := w.logits(ctx, window, 6)
		require.NoError(t, err)
		require.NotEqual(t, want, append([]float32{}, other...))
	}
}

func TestDraw(t *testing.T) {
	inf := float32(math.Inf(-1))
	even := []float32{inf, 0, inf, 0}
	for _, c := range []struct {
		logits         []float32
		temperature, u float64
		want           byte
	}{
		{even, 1, 0, 1}, {even, 1, 0.49, 1}, {even, 1, 0.51, 3}, {even, 1, math.Nextafter(1, 0), 3},
		{[]float32{0, 1}, 1, 0.26, 0}, {[]float32{0, 1}, 1, 0.27, 1}, // 1/(1+e) is 0.2689
		{[]float32{0, 1}, 0.01, 1e-9, 1}, {[]float32{0, 1}, 1e9, 0.4999, 0}, {[]float32{0, 1}, 1e9, 0.5001, 1},
		{[]float32{1000, 999}, 1, 0.5, 0},
	} {
		if got := draw(c.logits, c.temperature, c.u); got != c.want {
			t.Errorf("draw(%v, %v, %v) = %d, want %d", c.logits, c.temperature, c.u, got, c.want)
		}
	}
}

// No byte that a model writes does anything to a terminal.
func TestPrintable(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	got := printable(string(all))
	if strings.ContainsAny(got, "\x1b\x07\b\r\x00\x7f\u009b\ufffd") || len(got) != 256 || !strings.Contains(got, "\t\n") || !strings.Contains(got, "ABC") {
		t.Errorf("got %q", got)
	}
	if got, want := printable("für 2 €\u202e!"), "für 2 €?!"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Plans name the layer that an instruction belongs to and the part of it, in the backward
// pass and where layers are computed again, too.
func TestScopes(t *testing.T) {
	for _, remat := range []string{rematOff, rematAll} {
		c, o, err := parse([]string{"-remat", remat})
		require.NoError(t, err)
		p, cfg := planned(t, c, o.mesh)
		plan, err := gomoe.Compile(p.Program, cfg)
		require.NoError(t, err)
		text := plan.String()
		for _, scope := range []string{"layers.0.attention", "layers.0.moe", "layers.3.attention", "layers.3.moe"} {
			require.Contains(t, text, scope, "-remat %s", remat)
		}
	}
}
