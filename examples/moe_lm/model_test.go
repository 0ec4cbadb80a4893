package main

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// Training starts from weights of the sizes that params says, each drawn by
// itself, and from moments of zero, the same on every mesh.
func TestInitial(t *testing.T) {
	args, _ := tiny(t, "-width", "32", "-ffn", "64")
	c, o, _ := setup(t, args...)
	var first map[string]array.Array
	var params []nn.Param
	for _, mesh := range []string{"", "dp=2,ep=2", "ep=8", "dp=2,tp=2"} {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		tr := started(t, c, o, m, o.Seed, runtime.Options{}, false)
		defer tr.Close()
		params = tr.p.Params
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
	for _, p := range params {
		w := first[p.Name].Float64s()
		var sum, squares float64
		for _, x := range w {
			sum, squares = sum+x, squares+x*x
		}
		mean, want := sum/float64(len(w)), 0.0
		if p.Init.Std == 0 {
			want = 1
		} else if other, ok := seen[w[0]/p.Init.Std]; ok {
			t.Errorf("%s and %s are drawn alike", other, p.Name)
		} else {
			seen[w[0]/p.Init.Std] = p.Name
		}
		std := math.Sqrt(squares/float64(len(w)) - mean*mean)
		near := 5 / math.Sqrt(float64(len(w))) // five standard errors
		if math.Abs(mean-want) > near*p.Init.Std || math.Abs(std-p.Init.Std) > near*p.Init.Std {
			t.Errorf("%s has mean %v and standard deviation %v, want %v and %v", p.Name, mean, std, want, p.Init.Std)
		}
		for _, moment := range []string{"m/", "v/"} {
			for _, x := range first[moment+p.Name].Float64s() {
				if x != 0 {
					t.Fatalf("%s%s has %v, want 0", moment, p.Name, x)
				}
			}
		}
	}
}

// The norm is that of all gradients together, and longer ones are cut to -clip, unless that is 0:
// after the first step the first moment is 1-0.9 of what is left of them.
// Every layer has its own experts' choices.
func TestStep(t *testing.T) {
	for _, clip := range []float64{0.5, 0} {
		args, _ := tiny(t)
		c, o, corpus := setup(t, args...)
		o.Clip = clip
		tr := started(t, c, o, o.Mesh, o.Seed, runtime.Options{}, true)
		defer tr.Close()
		inputs, targets, err := corpus.Batch(1, o.Rows, o.Length)
		require.NoError(t, err)
		res, err := tr.train(context.Background(), 1, o.Rate, inputs, targets)
		require.NoError(t, err)
		for l, row := range res.Demand {
			pairs := int64(0)
			for _, n := range row {
				pairs += n
			}
			if want := int64(o.Rows * o.Length * c.TopK); pairs != want || len(row) != c.Experts || l > 0 && slices.Equal(row, res.Demand[0]) {
				t.Errorf("layer %d: choices %v, want %d, not those of layer 0 %v", l, row, want, res.Demand[0])
			}
		}
		var squares, moments float64
		for _, p := range tr.p.Params {
			g, err := res.Results["grad/"+p.Name].Get()
			require.NoError(t, err)
			for _, x := range g.Float64s() {
				squares += x * x
			}
			m, err := tr.State()["m/"+p.Name].Get()
			require.NoError(t, err)
			for _, x := range m.Float64s() {
				moments += x * x
			}
		}
		norm := math.Sqrt(squares)
		if math.Abs(res.Norm-norm) > 1e-5*norm || norm < 1 {
			t.Errorf("the step says %v, the gradients have norm %v", res.Norm, norm)
		}
		left := math.Sqrt(moments) / (1 - 0.9)
		want := norm
		if clip > 0 {
			want = min(norm, clip)
		}
		if math.Abs(left-want) > 1e-5*want {
			t.Errorf("-clip %g leaves a norm of %v, want %v", clip, left, want)
		}
	}
}

// Plans name the layer that an instruction belongs to and the part of it, in the backward
// pass and where layers are computed again, too.
func TestScopes(t *testing.T) {
	for _, remat := range []string{"off", "all"} {
		c, o, err := parse([]string{"-remat", remat})
		require.NoError(t, err)
		p, cfg := planned(t, c, o, o.Mesh)
		plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
		require.NoError(t, err)
		text := plan.String()
		for _, scope := range []string{"layers.0.attention", "layers.0.moe", "layers.3.attention", "layers.3.moe"} {
			require.Contains(t, text, scope, "-remat %s", remat)
		}
	}
}
