package train_test

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train"
)

// A linear model learns to add up its inputs, on two ranks that have half of each batch.
func ExampleTrace() {
	p, err := train.Trace("step", train.Config{
		Optimizer: train.Chain(
			train.ClipByGlobalNorm(1),
			train.On(train.Named("*.weight"), train.Muon(train.MuonOptions{})),
			train.On(train.Named("*.bias"), train.AdamW(train.AdamWOptions{})),
		),
		Zero: train.ZeroMoments, Batch: []string{"dp"},
	}, func(s *nn.Scope) (*graph.Value, []*graph.Value) {
		x := s.Tracer().Input("x", graph.F32, 4, 3)
		y := nn.Linear{Out: 1, Bias: true}.Apply(s.In("sum", ""), x)
		wrong := primitives.Sub(primitives.Reshape(y, 4), primitives.ReduceSum(x, 1))
		loss := primitives.MulScalar(primitives.ReduceSum(primitives.Square(wrong)), 1.0/4)
		return loss, []*graph.Value{loss.Named("loss")}
	})
	check(err)
	mesh, err := sharding.ParseMesh("dp=2")
	check(err)
	run, err := train.Open(context.Background(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"x": sharding.Split("dp")}})
	check(err)
	defer run.Close()
	check(run.Init(context.Background(), 1))

	rate := train.Cosine(0.1, 10, 100, 0)
	var loss float64
	for n := 1; n <= 100; n++ {
		x := array.New(graph.T(graph.F32, 4, 3))
		for i, d := 0, array.Data[float32](x); i < len(d); i++ {
			d[i] = float32((i*7+n*5)%11)/11 - 0.5
		}
		out, err := run.Step(context.Background(), n, rate(n), map[string]array.Array{"x": x})
		check(err)
		got, err := run.Job.Get(context.Background(), out["loss"])
		check(err)
		loss = got.Float64s()[0]
	}
	for _, st := range p.State {
		fmt.Println(st.Name, st.Spec(mesh).Format(st.Type))
	}
	fmt.Println("it has learned:", loss < 1e-3)
	// Output:
	// sum.weight f32[1,3]
	// muon/sum.weight f32[1@dp,3]
	// sum.bias f32[1]
	// m/sum.bias f32[1@dp]
	// v/sum.bias f32[1@dp]
	// it has learned: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
