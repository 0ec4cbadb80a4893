package main

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train/lm"
)

// learned returns the weights after three steps on random bytes.
func learned(t *testing.T, args ...string) map[string]array.Array {
	t.Helper()
	c, o, err := parse(append([]string{"-width", "16", "-layers", "2", "-heads", "2", "-ffn", "12", "-experts", "4", "-seq", "8", "-batch", "12"}, args...))
	require.NoError(t, err)
	tr := started(t, c, o, o.Mesh, 1, runtime.Options{}, false)
	defer tr.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	text := func() []int32 {
		b := make([]int32, o.Rows*o.Length)
		for i := range b {
			b[i] = int32(rng.IntN(lm.Vocab))
		}
		return b
	}
	for n := range 3 {
		_, err := tr.train(context.Background(), n+1, 1e-3, text(), text())
		require.NoError(t, err)
	}
	in, err := tr.batch(text(), text())
	require.NoError(t, err)
	_, err = tr.eval.Scalar(context.Background(), "loss", in)
	require.NoError(t, err)
	w, err := tr.Weights(context.Background())
	require.NoError(t, err)
	return w
}

// Training with moments and weights split over the ranks of the batch makes the weights that
// training without makes, to the bit. The gradient is clipped to a tenth of its norm or so.
func TestZero(t *testing.T) {
	for i, mesh := range []string{"", "dp=2,ep=2", "ep=2,dp=3", "dp=4", "dp=2,tp=2", "ep=4"} {
		for j, more := range [][]string{{}, {"-remat", "all"}, {"-dtype", "bf16", "-overlap", "collectives"}} {
			if !*every && (i+j)%3 != 0 {
				continue
			}
			args := append([]string{"-mesh", mesh, "-clip", "0.1"}, more...)
			want := learned(t, args...)
			for _, zero := range []string{"moments", "weights"} {
				for name, a := range learned(t, append(args, "-zero", zero)...) {
					if !array.Equal(a, want[name]) {
						t.Errorf("%v -zero %s: %s has other bits", args, zero, name)
						break
					}
				}
			}
		}
	}
}

// Training in parts of the batch makes nearly the weights that training with the whole batch makes.
func TestMicrobatches(t *testing.T) {
	for _, args := range [][]string{{"-mesh="}, {"-mesh", "dp=2,ep=2", "-remat", "all", "-zero", "weights"}} {
		args = append(args, "-balance", "0", "-clip", "1e9")
		want := learned(t, args...)
		for name, a := range learned(t, append(args, "-microbatches", "3")...) {
			got, want := a.Float64s(), want[name].Float64s()
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-4 { // of three steps of 1e-3, where gradients are near 0
					t.Fatalf("%v: element %d of %s is %v, want %v", args, i, name, got[i], want[i])
				}
			}
		}
	}
}

// Plans say what -zero saves: of the moments and the weights a rank holds its share, and
// gradients are added up by reduce_scatter.
func TestZeroMemory(t *testing.T) {
	inputs, totals := map[string]int64{}, map[string]int64{}
	for _, zero := range []string{"off", "moments", "weights"} {
		c, o, err := parse([]string{"-mesh", "dp=2,ep=2", "-remat", "all", "-zero", zero})
		require.NoError(t, err)
		p, cfg := planned(t, c, o, o.Mesh)
		plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
		require.NoError(t, err)
		mem := plan.Report(1).Mem
		inputs[zero], totals[zero] = mem.Inputs, mem.Total
		made, asked := exchanges(plan)
		t.Logf("-zero %s: inputs %s, arena %s, total %s, %v for %v", zero, memory.Format(mem.Inputs), memory.Format(mem.Arena), memory.Format(mem.Total), made, asked)
		if zero == "off" {
			continue
		}
		if n := len(p.Params); asked["reduce_scatter"] != n || asked["all_sum"] != 4 || asked["all_gather"] < n {
			t.Errorf("-zero %s: %v, want %d reduce_scatters, as many all_gathers, and an all_sum of experts' loads for each of 4 layers", zero, asked, n)
		}
	}
	if w, m := totals["weights"], totals["moments"]; 10*w > 9*m {
		t.Errorf("split weights take %d bytes in all, and split moments alone %d; want a tenth less, as layers drop gathered weights", w, m)
	}
	// Two ranks have a copy of the same experts, and all four of the other weights.
	c, _, err := parse(nil)
	require.NoError(t, err)
	all := c.Size().Weights
	experts := int64(c.Layers) * 3 * int64(c.Experts) * int64(c.Width) * int64(c.FFN)
	dense := int64(all) - experts
	held := 4 * (dense + experts/2)
	share := 4 * (dense/4 + experts/4)
	if got, want := inputs["off"]-inputs["moments"], 2*(held-share); got != want {
		t.Errorf("split moments save %d bytes, want %d", got, want)
	}
	if got, want := inputs["moments"]-inputs["weights"], held-share; got != want {
		t.Errorf("split weights save %d bytes, want %d", got, want)
	}
}

// Four processes learn the same with everything split as one process does.
func TestZeroProcesses(t *testing.T) {
	more := []string{"-steps", "3", "-eval", "2", "-sample", "0", "-mesh", "dp=2,ep=2", "-zero", "weights"}
	args, out := tiny(t, more...)
	_, err := execute(t, args...)
	require.NoError(t, err)
	want := numbers(t, out)
	for _, transport := range []string{"tcp", "shm"} {
		args, out := tiny(t, append(more, "-transport", transport)...)
		status, _, stderr := launched(t, 4, args, nil)
		require.Zero(t, status, "%s: %s", transport, stderr)
		if got := numbers(t, out); got != want {
			t.Errorf("%s: four processes learn\n%s\none learns\n%s", transport, got, want)
		}
	}
}

// With -sums bf16 ranks exchange half of the bytes for gradients, with -zero too.
func TestSumsNarrow(t *testing.T) {
	bytes := func(args ...string) (sum int64) {
		c, o, err := parse(append([]string{"-mesh", "dp=2,ep=2"}, args...))
		require.NoError(t, err)
		p, cfg := planned(t, c, o, o.Mesh)
		plan, err := gomoe.Compile(t.Context(), p.Program, cfg)
		require.NoError(t, err)
		for i := range plan.Instrs {
			if in := &plan.Instrs[i]; in.DType != graph.I32 && (in.Name() == "all_sum" || in.Name() == "reduce_scatter") {
				for _, b := range in.In {
					sum += plan.Bufs[b].Type.Bytes()
				}
			}
		}
		return sum
	}
	for _, zero := range []string{"off", "weights"} {
		all := bytes("-zero", zero)
		if half := bytes("-zero", zero, "-sums", "bf16"); 2*half != all {
			t.Errorf("-zero %s: sums of %d bytes in bf16, want half of %d", zero, half, all)
		}
	}
	_, _, err := parse([]string{"-sums", "f64"})
	require.ErrorContains(t, err, "want f32, bf16 or f16")
	_, _, err = parse([]string{"-zero", "all"})
	require.ErrorContains(t, err, `invalid value "all" for flag -zero: want off, moments or weights`)
}
