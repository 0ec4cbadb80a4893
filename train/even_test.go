package train

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
)

const evenBias = "moe.gate.e_score_correction_bias"

// evenStep traces two layers of experts, of which the first chooses with a bias. x leans to some of the experts.
func evenStep(t *testing.T, c Config) *Program {
	t.Helper()
	p, err := Trace("step", c, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		x := s.Tracer().Input("x", graph.F32, 8, 16, 8)
		moe := nn.MoE{Experts: 4, Width: 16, Route: primitives.RouteOp{TopK: 2, Score: primitives.SigmoidScore, Renormalize: true}, Bias: "e_score_correction_bias"}
		y, routed := moe.Apply(s.In("moe", ""), x)
		moe.Bias = ""
		z, _ := moe.Apply(s.In("plain", ""), y)
		return primitives.MulScalar(primitives.ReduceSum(primitives.Square(primitives.Sub(primitives.Add(z, y), x))), 1.0/128), []*graph.Value{routed.Demand.Named("demand")}
	})
	require.NoError(t, err)
	return p
}

// A bias grows for experts with less than their share and falls for those with more, by the same bits on every mesh;
// loads become more even; the optimiser does not touch it.
func TestEven(t *testing.T) {
	const steps, by = 60, 0.03
	x := array.New(graph.T(graph.F32, 8, 16, 8))
	for i, d := 0, array.Data[float32](x); i < len(d); i++ {
		d[i] = float32((i*i+3*i)%29)/29 + 0.3
	}
	run := func(mesh string, even float64) (bias []float64, demand [][]float64) {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		// The optimiser would move it: its decay is for all.
		p := evenStep(t, Config{Optimizer: AdamW(AdamWOptions{Decay: 0.5, DecayOn: All}), Even: even})
		r, err := Open(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("dp.ep").On(m)}})
		require.NoError(t, err)
		defer r.Close()
		require.NoError(t, r.Init(t.Context(), 1))
		want := make([]float32, 4)
		for n := range steps {
			out, err := r.Step(t.Context(), n+1, 0, map[string]array.Array{"x": x}) // no rate: weights stay as they are
			require.NoError(t, err)
			d, err := r.Job.Get(t.Context(), out["demand"])
			require.NoError(t, err)
			demand = append(demand, d.Float64s())
			for e, has := range d.Float64s() {
				switch mean := 8.0 * 16 * 2 / 4; {
				case has < mean:
					want[e] += float32(even)
				case has > mean:
					want[e] -= float32(even)
				}
			}
			b, err := r.Job.Get(t.Context(), r.State()[evenBias])
			require.NoError(t, err)
			if bias = b.Float64s(); !slices.Equal(array.Data[float32](b), want) {
				t.Fatalf("%s: bias %v after step %d with %v choices, want %v", mesh, bias, n+1, d.Float64s(), want)
			}
		}
		return bias, demand
	}
	most := func(demand []float64) float64 { return slices.Max(demand) / (8 * 16 * 2 / 4) }
	bias, demand := run("", by)
	last := 0.0
	for _, d := range demand[steps-20:] {
		last += most(d) / 20
	}
	if first := most(demand[0]); first < 1.9 || last > 1.6 {
		t.Errorf("the fullest expert has %.2f of its share at first and %.2f at the end", first, last)
	}
	for _, mesh := range []string{"dp=2", "ep=4", "dp=2,ep=2", "ep=2,tp=2"} {
		b, d := run(mesh, by)
		require.Equal(t, bias, b, mesh)
		require.Equal(t, demand, d, mesh)
	}
	for i, b := range bias {
		if math.IsNaN(b) || b == 0 {
			t.Errorf("bias %d is %v", i, b)
		}
	}
}

func TestEvenErrors(t *testing.T) {
	forward := func(bias string) func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		return func(s *nn.Scope) (*graph.Value, []*graph.Value) {
			x := s.Tracer().Input("x", s.DType(), 1, 4, 8)
			y, _ := nn.MoE{Experts: 4, Width: 8, Route: primitives.RouteOp{TopK: 1, Score: primitives.SigmoidScore}, Bias: bias}.Apply(s.In("moe", ""), x)
			return primitives.ReduceSum(primitives.ConvertElementType(y, graph.F32)), nil
		}
	}
	for _, tt := range []struct {
		c    Config
		bias string
		want string
	}{
		{Config{Even: -1}, "b", "train: step: even -1, want a finite number of at least 0"},
		{Config{Even: math.Inf(1)}, "b", "even +Inf"},
		{Config{Even: 1e-3}, "", "no layer of experts has a bias for choosing experts, as models of deepseek_v3 and glm4_moe have (nn.MoE.Bias); leave out even"},
		{Config{Even: 1e-3, Model: nn.Options{DType: graph.BF16}}, "b", "moe.gate.b is bf16[4], in which small steps are lost, want f32; say so in Config.Model.Stored"},
	} {
		tt.c.Optimizer = SGD(SGDOptions{})
		_, err := Trace("step", tt.c, forward(tt.bias))
		require.ErrorContains(t, err, tt.want)
	}
}
