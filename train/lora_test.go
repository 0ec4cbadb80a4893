package train

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// adapted is a small model with a linear layer and experts.
func adapted(s *nn.Scope) (*graph.Value, []*graph.Value) {
	x := s.Tracer().Input("x", graph.F32, 2, 8, 6)
	y := nn.Linear{Out: 6, Bias: true}.Apply(s.In("first", ""), x)
	z, _ := nn.MoE{Experts: 4, Width: 10, Route: primitives.RouteOp{TopK: 2, Renormalize: true}}.Apply(s.In("mlp", ""), primitives.Add(x, y))
	loss := primitives.ReduceSum(primitives.Square(primitives.Sub(z, primitives.Reverse(x, 2))))
	return loss, []*graph.Value{loss.Named("loss")}
}

// numbers returns an array of numbers that follow from its name.
func numbers(name string, t graph.Type) array.Array {
	seed := uint64(0)
	for _, c := range name {
		seed = seed*31 + uint64(c)
	}
	r, a := rand.New(rand.NewPCG(seed, 1)), array.New(t)
	for i, d := 0, array.Data[float32](a); i < len(d); i++ {
		d[i] = float32(r.NormFloat64()) / 2
	}
	return a
}

// once runs a step of the model whose parameters are those that value returns, and returns the results by name.
func once(t *testing.T, c Config, mesh string, inputs map[string]array.Array, value func(nn.Param) array.Array) (map[string]array.Array, *Program) {
	t.Helper()
	c.Optimizer, c.Gradients = SGD(SGDOptions{}), true
	p, err := Trace("step", c, adapted)
	require.NoError(t, err)
	m, err := sharding.ParseMesh(mesh)
	require.NoError(t, err)
	run, err := Open(t.Context(), p, gomoe.Config{Mesh: m, Place: map[string]sharding.Spec{"x": sharding.Split("dp.ep").On(m)}})
	require.NoError(t, err)
	defer run.Close()
	require.NoError(t, run.Init(t.Context(), 1))
	for _, x := range append(p.Params, p.Frozen...) {
		a := value(x)
		require.NoError(t, run.Put(x.Name, func(p runtime.Part) error { return fillFrom(a, p) }))
	}
	inputs["x"] = numbers("x", graph.T(graph.F32, 2, 8, 6))
	out, err := run.Step(context.Background(), 1, 0.1, inputs)
	require.NoError(t, err)
	all := map[string]array.Array{}
	for name, v := range out {
		all[name], err = run.Job.Get(context.Background(), v)
		require.NoError(t, err)
	}
	for name, v := range run.State() {
		all["new/"+name], err = run.Job.Get(context.Background(), v)
		require.NoError(t, err)
	}
	return all, p
}

// almost compares numbers to within some of the largest one's last digits.
func almost(t *testing.T, want, got []float32, text string, args ...any) {
	t.Helper()
	most := 0.0
	for _, x := range want {
		most = max(most, math.Abs(float64(x)))
	}
	require.InDeltaSlice(t, want, got, 1e-5*most, append([]any{text}, args...)...)
}

// fillFrom copies a part of an array.
func fillFrom(a array.Array, p runtime.Part) error {
	return runtime.ReadAt(strings.NewReader(string(a.Bytes())), 0)(p)
}

func data32(a array.Array) []float32 { return array.Data[float32](a) }

// product returns s · x[n,k] · y[k,m] of matrices that lie as they are, or as their transposes do.
func product(s float64, n, k, m int, x, y func(i, j int) float32) []float32 {
	out := make([]float32, n*m)
	for i := range n {
		for j := range m {
			sum := 0.0
			for l := range k {
				sum += float64(x(i, l)) * float64(y(l, j))
			}
			out[i*m+j] = float32(s * sum)
		}
	}
	return out
}

// Adapters compute what the matrix W + Alpha/Rank·B·A does, and their gradients are those that follow from its gradient.
// Only they change, and they are the same on ranks.
func TestLoRA(t *testing.T) {
	const rank, scale = 3, 2.0
	lora := &nn.LoRA{Rank: rank, Alpha: scale * rank, Targets: []string{"first", "experts.*.*_proj"}}
	value := func(p nn.Param) array.Array { return numbers(p.Name, p.Type) }
	got, p := once(t, Config{Model: nn.Options{LoRA: lora}}, "", map[string]array.Array{}, value)
	require.Len(t, p.Params, 8)
	require.Len(t, p.Frozen, 6)
	for _, x := range p.Frozen {
		if _, ok := got["new/"+x.Name]; ok {
			t.Errorf("%s is frozen and has a new value", x.Name)
		}
	}
	bases := map[string]bool{"first.": true, "mlp.experts.*.gate_proj.": true, "mlp.experts.*.up_proj.": true, "mlp.experts.*.down_proj.": true}
	part := func(a array.Array, e, columns int) func(i, j int) float32 {
		n := a.Type.Shape[len(a.Type.Shape)-2] * columns
		return func(i, j int) float32 { return data32(a)[e*n+i*columns+j] }
	}
	turned := func(f func(i, j int) float32) func(i, j int) float32 {
		return func(i, j int) float32 { return f(j, i) }
	}
	sizes := func(w graph.Type) (n, out, in int) {
		n, out, in = 1, w.Shape[len(w.Shape)-2], w.Shape[len(w.Shape)-1]
		if len(w.Shape) == 3 {
			n = w.Shape[0]
		}
		return n, out, in
	}
	adapters := func(w graph.Type, base string) (a, b array.Array) {
		n, out, in := sizes(w)
		shapeA, shapeB := []int{rank, in}, []int{out, rank}
		if len(w.Shape) == 3 {
			shapeA, shapeB = []int{n, rank, in}, []int{n, out, rank}
		}
		return numbers(base+nn.LoRAA, graph.T(graph.F32, shapeA...)), numbers(base+nn.LoRAB, graph.T(graph.F32, shapeB...))
	}
	dense, whole := once(t, Config{}, "", map[string]array.Array{}, func(p nn.Param) array.Array {
		w := numbers(p.Name, p.Type)
		base := strings.TrimSuffix(p.Name, "weight")
		if !bases[base] || base == p.Name {
			return w
		}
		n, out, in := sizes(p.Type)
		a, b := adapters(p.Type, base)
		for e := range n {
			for i, x := range product(scale, out, rank, in, part(b, e, rank), part(a, e, in)) {
				data32(w)[e*out*in+i] += x
			}
		}
		return w
	})
	require.InEpsilon(t, dense["loss"].Float64s()[0], got["loss"].Float64s()[0], 1e-5)
	checked := 0
	for _, x := range whole.Params {
		base := strings.TrimSuffix(x.Name, "weight")
		if !bases[base] || base == x.Name {
			continue
		}
		n, out, in := sizes(x.Type)
		a, b := adapters(x.Type, base)
		g := dense["grad/"+x.Name]
		for e := range n {
			wantA := product(scale, rank, out, in, turned(part(b, e, rank)), part(g, e, in))
			wantB := product(scale, out, in, rank, part(g, e, in), turned(part(a, e, in)))
			almost(t, wantA, data32(got["grad/"+base+nn.LoRAA])[e*rank*in:][:rank*in], "%s of expert %d", base, e)
			almost(t, wantB, data32(got["grad/"+base+nn.LoRAB])[e*rank*out:][:rank*out], "%s of expert %d", base, e)
			checked++
		}
	}
	require.Equal(t, 13, checked)
	for _, mesh := range []string{"ep=2", "dp=2", "tp=2"} {
		other, _ := once(t, Config{Model: nn.Options{LoRA: lora}}, mesh, map[string]array.Array{}, value)
		for name, a := range got {
			almost(t, data32(a), data32(other[name]), "%s on %s", name, mesh)
		}
	}
}

// What is dropped is a function of the key, the same on every mesh, and nothing without a key.
func TestLoRADropout(t *testing.T) {
	lora := &nn.LoRA{Rank: 2, Targets: []string{"first"}, Dropout: 0.4}
	value := func(p nn.Param) array.Array { return numbers(p.Name, p.Type) }
	key := func(t *graph.Tracer) *graph.Value { return t.Input("key", graph.U32, 2) }
	loss := func(n uint32, mesh string, c nn.Options) float64 {
		in := map[string]array.Array{}
		if c.Key != nil {
			k, err := array.Of([]uint32{7, n}, 2)
			require.NoError(t, err)
			in["key"] = k
		}
		out, _ := once(t, Config{Model: c}, mesh, in, value)
		return out["loss"].Float64s()[0]
	}
	drops := nn.Options{LoRA: lora, Key: key}
	none := loss(0, "", nn.Options{LoRA: lora})
	first, second := loss(1, "", drops), loss(2, "", drops)
	if none == first || first == second {
		t.Errorf("losses %v without a key, %v and %v with keys, want others", none, first, second)
	}
	for _, mesh := range []string{"dp=2", "ep=2"} {
		require.InEpsilon(t, first, loss(1, mesh, drops), 1e-5, mesh)
	}
}

// Frozen parameters are to be put, and nothing else but parameters.
func TestPut(t *testing.T) {
	p, err := Trace("step", Config{Optimizer: SGD(SGDOptions{}), Model: nn.Options{LoRA: &nn.LoRA{Rank: 2, Targets: []string{"first"}}}}, adapted)
	require.NoError(t, err)
	run, err := Open(t.Context(), p, gomoe.Config{})
	require.NoError(t, err)
	fill := func(runtime.Part) error { return nil }
	require.ErrorContains(t, run.Put("first."+nn.LoRAA, fill), "want the name of a parameter, and Init before")
	require.NoError(t, run.Init(t.Context(), 1))
	require.NoError(t, run.Put("first."+nn.LoRAA, fill))
	require.ErrorContains(t, run.Put("rate", fill), "train: step: put rate: want the name of a parameter")
	x := map[string]array.Array{"x": numbers("x", graph.T(graph.F32, 2, 8, 6))}
	_, err = run.Step(context.Background(), 1, 0.1, x)
	require.ErrorContains(t, err, "first.weight is frozen and has no value; call Put before the first step")

	// What is frozen may lie in memory of the caller's, and a step does not write to it.
	back := 0
	lend := func(name string, shape graph.Type) (runtime.Loan, array.Array) {
		a := numbers(name, shape)
		return runtime.Loan{Mem: func(runtime.Part) []byte { return a.Bytes() }, Fill: fill, Back: func() { back++ }}, a
	}
	l, _ := lend("x", graph.T(graph.F32, 2))
	require.ErrorContains(t, run.Lend("first."+nn.LoRAA, l), "want the name of a frozen parameter; a step writes to others, and Put sets them")
	require.Equal(t, 1, back)
	lent := map[string]array.Array{}
	for _, p := range p.Frozen {
		l, a := lend(p.Name, p.Type)
		require.NoError(t, run.Lend(p.Name, l))
		lent[p.Name] = a
	}
	for step := range 3 {
		_, err = run.Step(context.Background(), step+1, 0.1, x)
		require.NoError(t, err)
	}
	for name, a := range lent {
		require.True(t, array.Equal(numbers(name, a.Type), a), name)
	}
	require.Equal(t, 1, back)
	require.NoError(t, run.Close())
	require.Equal(t, 1+len(lent), back)
	for _, c := range []struct {
		lora nn.LoRA
		want string
	}{
		{nn.LoRA{Targets: []string{"first"}}, "lora: rank 0, want at least 1"},
		{nn.LoRA{Rank: 1}, "lora: no targets"},
		{nn.LoRA{Rank: 1, Targets: []string{"["}}, `lora: target "["`},
		{nn.LoRA{Rank: 1, Targets: []string{"first"}, Dropout: 1}, "lora: dropout 1, want 0 to below 1"},
		{nn.LoRA{Rank: 1, Targets: []string{"first"}, Alpha: -1}, "lora: alpha -1"},
		{nn.LoRA{Rank: 1, Targets: []string{"second"}}, "the model has no parameters"},
	} {
		_, err := Trace("step", Config{Optimizer: SGD(SGDOptions{}), Model: nn.Options{LoRA: &c.lora}}, adapted)
		require.ErrorContains(t, err, c.want)
	}
}
