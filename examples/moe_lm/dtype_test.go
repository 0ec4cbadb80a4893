package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
)

// In bf16 the model learns as it does in f32. The first steps follow each other
// closely. Later ones do not, not even on two kinds of processor in f32: at this rate
// of learning the trajectories are chaotic. So the end is held to its loss and to what
// the model writes.
func TestTrainingBF16(t *testing.T) {
	const steps, close = 120, 5
	first := map[string][]float64{}
	for _, dtype := range []string{"f32", "bf16"} {
		args, out := tiny(t, "-dtype", dtype, "-steps", strconv.Itoa(steps), "-warmup", "5", "-eval", "40", "-sample", "35", "-lr", "2e-2", "-temperature", "0.05", "-prompt", "the quick ")
		stdout, err := execute(t, args...)
		require.NoError(t, err)
		require.Contains(t, stdout, "computing in "+dtype+"\n")
		metrics := readMetrics(t, out)
		require.Len(t, metrics, steps)
		for _, s := range metrics[:close] {
			first[dtype] = append(first[dtype], s["loss"])
		}
		_, _, corpus := setup(t, args...)
		unigram, _ := corpus.UnigramEntropy()
		if last := metrics[steps-1]; last["smoothed"] > 0.2*unigram || last["held_out"] > 0.2*unigram {
			t.Errorf("%s: loss %v, on held-out text %v: want both below a fifth of the unigram entropy %v", dtype, last["smoothed"], last["held_out"], unigram)
		}
		sample, err := os.ReadFile(filepath.Join(out, "sample.txt"))
		require.NoError(t, err)
		if string(sample) != sentence {
			t.Errorf("%s: the model writes %q, want %q", dtype, sample, sentence)
		}
	}
	for i, want := range first["f32"] {
		if got := first["bf16"][i]; math.Abs(got-want) > 0.025*want || got == want {
			t.Errorf("the loss of step %d is %v in bf16 and %v in f32, want others, within 2.5%%", i+1, got, want)
		}
	}
}

// Weights, moments, gradients, losses and what routers decide on are f32; what is
// multiplied with weights is bf16.
func TestStepBF16(t *testing.T) {
	args, _ := tiny(t, "-dtype", "bf16")
	c, o, _ := setup(t, args...)
	tr := started(t, c, o, o.Mesh, o.Seed, runtime.Options{}, false)
	defer tr.Close()
	for name, a := range tr.State() {
		require.Equal(t, graph.F32, a.Type.DType, name)
	}
	step := o.Step(c)
	step.Train.Gradients = true
	p, err := step.Trace(o.Mesh)
	require.NoError(t, err)
	for _, v := range p.Out {
		if d := v.Type.DType; d != graph.F32 && d != graph.I32 {
			t.Errorf("%s is %s, want f32", v.Name, v.Type)
		}
	}
	seen := map[string]int{}
	for _, e := range p.Eqns {
		switch name := e.Prim.Name(); {
		case name == "router" || strings.HasPrefix(name, "cross_entropy"):
			seen[name]++
			require.Equal(t, graph.F32, e.In[0].Type.DType, name)
		case strings.HasPrefix(name, "grouped_") || strings.HasPrefix(name, "attention"):
			seen[name]++
			require.Equal(t, graph.BF16, e.In[0].Type.DType, name)
		}
	}
	for name, n := range map[string]int{"router": 2, "cross_entropy": 1, "grouped_matmul": 12, "grouped_outer": 6, "attention": 2} {
		require.Equal(t, n, seen[name], name)
	}
}

// The losses of a step are those of any mesh, as in f32.
func TestMeshesBF16(t *testing.T) {
	var want float64
	for _, mesh := range []string{"", "dp=2,ep=2", "dp=1,ep=8"} {
		args, _ := tiny(t, "-dtype", "bf16", "-mesh", mesh)
		c, o, corpus := setup(t, args...)
		tr := started(t, c, o, o.Mesh, o.Seed, runtime.Options{}, false)
		defer tr.Close()
		inputs, targets, err := corpus.Batch(1, o.Rows, o.Length)
		require.NoError(t, err)
		res, err := tr.train(context.Background(), 1, o.Rate, inputs, targets)
		require.NoError(t, err)
		if want == 0 {
			want = res.Loss
		}
		if res.Loss != want {
			t.Errorf("mesh %s: the first loss is %v, on one rank %v", mesh, res.Loss, want)
		}
	}
}
