package models

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// expected is what transformers computes with a model of testdata; testdata/make.py has written it.
type expected struct {
	Tokens    [][]int32
	Logits    [][][]float32
	Loss      float64
	Norms     map[string]float64 // of the loss's gradients, by parameter
	Generated []int32            // the prompt and what follows
}

// tests are the models of testdata, and meshes to run them on beside one rank.
func tests() map[string][]string {
	return map[string][]string{
		"mixtral":      {"ep=3", "ep=2,tp=2", "dp=2,ep=2"},
		"mixtral_tied": {"ep=3"},
		"olmoe":        {"ep=4", "ep=2,tp=2"},
		"qwen3_moe":    {"ep=5", "dp=2"},
		"llama":        {"dp=2", "tp=2"},
		"qwen3":        {"tp=2"},
		"qwen2_moe":    {"ep=3", "ep=2,tp=2"},

		"deepseek_v2":        {"ep=3", "ep=2,tp=2"},
		"deepseek_v2_groups": {"ep=2"},
		"deepseek_v3":        {"ep=4", "dp=2,ep=2", "tp=2"},
		"deepseek_v3_fp8":    {"ep=3"},
		"glm4_moe":           {"ep=4", "tp=2"},
		"gpt_oss":            {"ep=3", "dp=2", "ep=2,tp=2"},
	}
}

func openTest(t *testing.T, name string) (*checkpoint.Checkpoint, *Model, expected) {
	t.Helper()
	dir := filepath.Join("testdata", name)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	m, err := Open(c)
	require.NoError(t, err)
	return c, m, expectedOf(t, name)
}

// expectedOf returns what transformers computes with a model of testdata.
func expectedOf(t *testing.T, name string) (want expected) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	return want
}

// put lends a checkpoint's weights, or copies what lies in another form in its files.
func put(t *testing.T, job *gomoe.Job, c *checkpoint.Checkpoint, params []nn.Param) map[string]*runtime.Array {
	t.Helper()
	in := map[string]*runtime.Array{}
	for _, p := range params {
		w, err := Find(c, p)
		require.NoError(t, err)
		in[p.Name], err = job.Lend(p.Name, w.Loan(c))
		require.NoError(t, err)
	}
	return in
}

func meshOf(t *testing.T, s string) sharding.Mesh {
	t.Helper()
	m, err := sharding.ParseMesh(s)
	require.NoError(t, err)
	return m
}

// paramsOf returns the parameters of a model, all of which the checkpoint has, and nothing else.
func paramsOf(t *testing.T, c *checkpoint.Checkpoint, m *Model) (params []nn.Param) {
	t.Helper()
	_, err := graph.Trace("model", func(tr *graph.Tracer) []*graph.Value {
		s := nn.New(tr, nn.Options{DType: DType(c), Stored: Stored(c)})
		out := m.Forward(s, tr.Input("tokens", graph.I32, 1, 4), &nn.Step{})
		params = s.Params()
		return []*graph.Value{out}
	})
	require.NoError(t, err)
	require.NoError(t, Surplus(c, params))
	return params
}

// logitsOf returns the logits of two sequences of tokens on a mesh.
func logitsOf(t *testing.T, c *checkpoint.Checkpoint, m *Model, mesh string, ids [][]int32) array.Array {
	t.Helper()
	params, on := paramsOf(t, c, m), meshOf(t, mesh)
	p, err := graph.Trace("logits", func(tr *graph.Tracer) []*graph.Value {
		s := nn.New(tr, nn.Options{DType: DType(c), Stored: Stored(c)})
		return []*graph.Value{m.Forward(s, tr.Input("tokens", graph.I32, 2, 12), &nn.Step{})}
	})
	require.NoError(t, err)
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{Mesh: on, Place: nn.Places(params, on)})
	require.NoError(t, err, "%s on %s", c.Path, mesh)
	in := put(t, job, c, params)
	tokens, err := array.Of(append(append([]int32{}, ids[0]...), ids[1]...), 2, 12)
	require.NoError(t, err)
	in["tokens"], err = job.Put("tokens", tokens)
	require.NoError(t, err)
	out, err := job.Run(context.Background(), in)
	require.NoError(t, err)
	got, err := job.Get(context.Background(), out[0])
	require.NoError(t, err)
	require.NoError(t, job.Close())
	return got
}

// isNear is an error if logits are off by more than 1e-5 of the largest.
func isNear(t *testing.T, what string, vocab int, got array.Array, want expected) {
	t.Helper()
	largest, worst := 0.0, 0.0
	x := array.Data[float32](got)
	for b, rows := range want.Logits {
		for i, row := range rows {
			for v, y := range row {
				largest = math.Max(largest, math.Abs(float64(y)))
				worst = math.Max(worst, math.Abs(float64(y)-float64(x[(b*12+i)*vocab+v])))
			}
		}
	}
	if !(worst <= 1e-5*largest) {
		t.Errorf("%s: logits are off by %g of the largest, %g", what, worst/largest, largest)
	}
}

// Logits are transformers' up to rounding, and the same bits on every mesh but one with tp.
func TestLogits(t *testing.T) {
	for name, meshes := range tests() {
		c, m, want := openTest(t, name)
		first := logitsOf(t, c, m, "", want.Tokens)
		isNear(t, name, m.Vocab, first, want)
		for _, mesh := range meshes {
			got := logitsOf(t, c, m, mesh, want.Tokens)
			isNear(t, name+" on "+mesh, m.Vocab, got, want)
			if !strings.Contains(mesh, "tp") && !array.Equal(first, got) {
				t.Errorf("%s on mesh %q: the bits are not those of one rank", name, mesh)
			}
		}
	}
}

// The loss's gradients have the norms that torch's have.
func TestGradients(t *testing.T) {
	for name := range tests() {
		c, m, want := openTest(t, name)
		if strings.HasSuffix(name, "_fp8") {
			continue // weights of 8 bits that lie in a file have no gradient
		}
		var params []nn.Param
		p, err := graph.Trace("loss", func(tr *graph.Tracer) []*graph.Value {
			s := nn.New(tr, nn.Options{Stored: Stored(c)})
			tokens := tr.Input("tokens", graph.I32, 2, 12)
			logits := primitives.SliceInDim(m.Forward(s, tokens, &nn.Step{}), 1, 0, 11)
			params = s.Params()
			return []*graph.Value{primitives.MulScalar(primitives.ReduceSum(primitives.CrossEntropy(logits, primitives.SliceInDim(tokens, 1, 1, 12))), 1.0/22)}
		})
		require.NoError(t, err)
		var names []string
		for _, p := range params {
			if !strings.HasSuffix(p.Name, "e_score_correction_bias") { // which has no gradient
				names = append(names, p.Name)
			}
		}
		g, err := vjp.Grad(p, names...)
		require.NoError(t, err)
		job, err := gomoe.Open(t.Context(), g, gomoe.Config{})
		require.NoError(t, err)
		in := put(t, job, c, params)
		tokens, err := array.Of(append(append([]int32{}, want.Tokens[0]...), want.Tokens[1]...), 2, 12)
		require.NoError(t, err)
		in["tokens"], err = job.Put("tokens", tokens)
		require.NoError(t, err)
		out, err := job.Run(context.Background(), in)
		require.NoError(t, err)
		loss, err := job.Get(context.Background(), out[0])
		require.NoError(t, err)
		if got := loss.Float64s()[0]; math.Abs(got-want.Loss) > 1e-5*want.Loss {
			t.Errorf("%s: loss %g, want %g", name, got, want.Loss)
		}
		squares := map[string]float64{}
		for i, name := range names {
			a, err := job.Get(context.Background(), out[1+i])
			require.NoError(t, err)
			for _, x := range a.Float64s() {
				squares[torchName(name)] += x * x
			}
		}
		require.NoError(t, job.Close())
		require.Len(t, squares, len(want.Norms), name)
		for key, norm := range want.Norms {
			if got := math.Sqrt(squares[key]); math.Abs(got-norm) > 2e-4*norm+1e-7 {
				t.Errorf("%s: the gradient of %s has norm %g, want %g", name, key, got, norm)
			}
		}
	}
}

// torchName returns the name that transformers has in memory for a parameter, where gate and up of the experts are one.
func torchName(name string) string {
	name = strings.Replace(name, "block_sparse_moe", "mlp", 1)
	for from, to := range map[string]string{"experts.*.w1.weight": "experts.gate_up_proj", "experts.*.w3.weight": "experts.gate_up_proj", "experts.*.w2.weight": "experts.down_proj",
		"experts.*.gate_proj.weight": "experts.gate_up_proj", "experts.*.up_proj.weight": "experts.gate_up_proj", "experts.*.down_proj.weight": "experts.down_proj",
		"experts.*.gate_proj.bias": "experts.gate_up_proj_bias", "experts.*.up_proj.bias": "experts.gate_up_proj_bias", "experts.*.down_proj.bias": "experts.down_proj_bias"} {
		name = strings.Replace(name, from, to, 1)
	}
	return name
}

// With caches, a prompt and then a token at a time give the tokens that transformers generates.
func TestGreedy(t *testing.T) {
	for name := range tests() {
		c, m, want := openTest(t, name)
		require.Equal(t, fmt.Sprint(want.Generated), fmt.Sprint(greedy(t, c, m, want.Generated[:5], len(want.Generated))), name)
	}
}

// greedy returns the most likely continuation of a prompt, n tokens with the prompt, a token at a time.
func greedy(t *testing.T, c *checkpoint.Checkpoint, m *Model, prompt []int32, n int) []int32 {
	t.Helper()
	var params []nn.Param
	var caches []string
	open := func(n int) *gomoe.Job {
		donate := map[string]int{}
		caches = nil
		p, err := graph.Trace("step", func(tr *graph.Tracer) []*graph.Value {
			s := nn.New(tr, nn.Options{Stored: Stored(c)})
			st := &nn.Step{Start: tr.Input("start", graph.I32, 1), Room: 80}
			logits := m.Forward(s, tr.Input("tokens", graph.I32, 1, n), st)
			params = s.Params()
			out := []*graph.Value{primitives.SliceInDim(logits, 1, n-1, n)}
			for _, k := range st.States() {
				donate[k.In.Name] = len(out)
				caches = append(caches, k.In.Name)
				out = append(out, k.Out)
			}
			return out
		})
		require.NoError(t, err)
		job, err := gomoe.Open(t.Context(), p, gomoe.Config{Donate: donate})
		require.NoError(t, err)
		return job
	}
	first, next := open(len(prompt)), open(1)
	in := put(t, next, c, params)
	for _, v := range next.Plan().In {
		if in[v.Name] == nil && len(v.Type.Shape) == 4 {
			var err error
			in[v.Name], err = next.Put(v.Name, array.New(v.Type))
			require.NoError(t, err)
		}
	}
	ids := append([]int32{}, prompt...)
	for at := 0; len(ids) < n; {
		job, new := next, ids[at:]
		if at == 0 {
			job = first
		}
		tokens, err := array.Of(new, 1, len(new))
		require.NoError(t, err)
		in["tokens"], err = job.Put("tokens", tokens)
		require.NoError(t, err)
		start, err := array.Of([]int32{int32(at)}, 1)
		require.NoError(t, err)
		in["start"], err = job.Put("start", start)
		require.NoError(t, err)
		out, err := job.Run(context.Background(), in)
		require.NoError(t, err)
		for i, name := range caches {
			in[name] = out[1+i]
		}
		logits, err := job.Get(context.Background(), out[0])
		require.NoError(t, err)
		best := int32(0)
		for i, x := range array.Data[float32](logits) {
			if x > array.Data[float32](logits)[best] {
				best = int32(i)
			}
		}
		at, ids = len(ids), append(ids, best)
	}
	require.NoError(t, first.Close())
	require.NoError(t, next.Close())
	return ids
}
