package train

import (
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// WeightResult names a model's result f32[] that weights a microbatch, such as the number of tokens averaged in its
// loss. Without it, all microbatches have equal weight.
const WeightResult = "weight"

// microbatchInput names the input u32[] holding the number of the microbatch, for models drawing random numbers.
const microbatchInput = "microbatch"

// modelFunc traces a model in a scope; see Trace. An evaluation returns no loss except among its results.
type modelFunc func(*nn.Scope) (loss *graph.Value, results []*graph.Value)

// pass holds the results and declarations of a forward pass.
type pass struct {
	params  []nn.Param
	values  []*graph.Value // of params
	loss    *graph.Value
	results []*graph.Value
	routed  []nn.Routed
	// grads are the gradients of the trained parameters, if requested.
	grads []*graph.Value
	// batch names the inputs with microbatches along a new first dimension.
	batch []string
}

// atOnce traces a model for the whole batch.
func atOnce(t *graph.Tracer, o nn.Options, f modelFunc) pass {
	scope := nn.New(t, o)
	m := pass{}
	m.loss, m.results = f(scope)
	m.params, m.values, m.routed = scope.Params(), scope.Values(), scope.Routed()
	return m
}

// rows reshapes a result of all microbatches, [n,B,..], to the whole batch, [n·B,..].
func (p *Program) rows(a array.Array) array.Array {
	if p.config.Microbatches <= 1 {
		return a
	}
	shape := a.Type.Shape
	return a.Reshape(append([]int{shape[0] * shape[1]}, shape[2:]...)...)
}

// micro traces a model for one microbatch, and a loop over n of them. If gradients are requested, the loop
// accumulates them, giving the gradients of the mean loss, and the pass has no loss. A result f32[] is averaged
// over the microbatches, integers are summed, and choices of experts are returned for all tokens.
func micro(t *graph.Tracer, o nn.Options, n int, f modelFunc, gradients bool) pass {
	m, keys := pass{}, []string{}
	one, err := graph.Trace("microbatch", func(t *graph.Tracer) []*graph.Value {
		if key := o.Key; key != nil {
			o.Key = func(t *graph.Tracer) *graph.Value {
				before := len(t.Program().In)
				k := key(t)
				for _, in := range t.Program().In[before:] {
					keys = append(keys, in.Name)
				}
				return primitives.RandomFoldIn(k, t.Input(microbatchInput, graph.U32))
			}
		}
		m = atOnce(t, o, f)
		out := slices.Clone(m.results)
		if gradients {
			out = append(out, m.loss)
		}
		for _, r := range m.routed {
			out = append(out, r.Demand)
		}
		return out
	})
	if err != nil {
		graph.Fail("%w", err)
	}
	at := map[string]int{} // indices of parameters, by name
	for i, p := range m.params {
		at[p.Name] = i
	}
	m.values = make([]*graph.Value, len(m.params))
	// Each input of the model is, in an iteration, either a slice of a loop argument or a value from outside the loop.
	slice, outside := make([]int, len(one.In)), make([]*graph.Value, len(one.In))
	var each []*graph.Value
	for i, in := range one.In {
		p, param := at[in.Name]
		switch {
		case param:
			m.values[p] = t.Input(in.Name, in.Type.DType, in.Type.Shape...)
			outside[i] = m.values[p]
		case in.Name == microbatchInput:
			slice[i], each = len(each), append(each, primitives.Iota(t, graph.U32, 0, n))
		case in.Type.Rank() == 0 || slices.Contains(keys, in.Name):
			outside[i] = t.Input(in.Name, in.Type.DType, in.Type.Shape...)
		default:
			slice[i], each = len(each), append(each, t.Input(in.Name, in.Type.DType, append([]int{n}, in.Type.Shape...)...))
			m.batch = append(m.batch, in.Name)
		}
	}
	weight := slices.IndexFunc(m.results, func(v *graph.Value) bool { return v.Name == WeightResult })
	var train []*graph.Value
	var carry []*graph.Value
	if gradients {
		for i, p := range m.params {
			if !p.Frozen {
				train = append(train, m.values[i])
				carry = append(carry, primitives.Full(t, 0, graph.F32, p.Type.Shape...))
			}
		}
	}
	if len(each) == 0 {
		graph.Fail("microbatches: the model has no inputs but its parameters, want a batch")
	}
	sums, all := graph.Scan(graph.ScanParams{}, carry, each, func(carry, x []*graph.Value) (c, y []*graph.Value) {
		b := graph.TracerOf(x...)
		args := make([]*graph.Value, len(one.In))
		for i := range args {
			if args[i] = outside[i]; args[i] == nil {
				args[i] = x[slice[i]]
			}
		}
		y = b.Replay(one, args)
		if !gradients {
			return nil, y
		}
		loss := y[len(m.results)]
		part := primitives.MulScalar(loss, 1/float64(n))
		if weight >= 0 {
			part = primitives.Mul(loss, y[weight])
		}
		for i, g := range vjp.Gradients(part, train...) {
			c = append(c, primitives.Add(carry[i], primitives.ConvertElementType(g, graph.F32)))
		}
		return c, y
	})
	mean := func(v *graph.Value) *graph.Value { return primitives.MulScalar(primitives.ReduceSum(v), 1/float64(n)) }
	if weight >= 0 {
		w := all[weight]
		total := primitives.ReduceSum(w)
		total = primitives.Max(total, primitives.FullLike(total, 1e-30)) // in case all weights are 0
		mean = func(v *graph.Value) *graph.Value {
			return primitives.Div(primitives.ReduceSum(primitives.Mul(v, w)), total)
		}
		for i, g := range sums {
			sums[i] = primitives.Div(g, primitives.BroadcastTo(total, g.Type.Shape...))
		}
	}
	m.grads = sums
	demand := all[len(all)-len(m.routed):]
	for i, r := range m.results {
		v := all[i]
		switch {
		case i == weight:
			v = primitives.ReduceSum(v)
		case strings.HasPrefix(r.Name, chosenPrefix):
			// The result stays [n,B,..], sharded over the mesh: Routes.Save writes the rows in order.
		case r.Type.DType.IsFloat() && r.Rank() == 0:
			v = mean(primitives.ConvertElementType(v, graph.F32))
		case r.Type.DType == graph.I32 || r.Type.DType == graph.I64:
			v = primitives.ReduceSum(v, 0)
		default:
			graph.Fail("microbatches: result %s %s of the model: want numbers f32[], of which the mean is taken, or i32 and i64, which are added up", r.Name, r.Type)
		}
		m.results[i] = v.Named(r.Name)
	}
	for i, r := range m.routed {
		m.routed[i] = nn.Routed{Layer: r.Layer, Bias: r.Bias, Demand: primitives.ReduceSum(demand[i], 0)}
	}
	return m
}

// over returns the placement of an input with microbatches along a new first dimension.
func over(spec sharding.Spec) sharding.Spec {
	spec.Dims = slices.Concat([][]string{nil}, spec.Dims)
	return spec
}
