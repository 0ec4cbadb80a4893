package train

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/near"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
)

// Transform is a stage of an optimiser, changing the updates of parameters. The first one receives the gradients;
// the output of the last one is subtracted from the parameters. Every parameter must reach ScaleByRate, an
// optimiser such as AdamW or SGD, or Freeze; otherwise Trace fails. Transforms run while the step is traced.
type Transform func(*Step, []*Update)

// Update is the change of a parameter in a step.
type Update struct {
	Param nn.Param
	Value *graph.Value // the parameter
	// Delta starts as the gradient. A transformation changing it must first apply the pending factor of Scale, as Take
	// does.
	Delta *graph.Value

	index int          // of the parameter
	scale *graph.Value // f32[]; nil means 1
	next  *graph.Value // the new parameter, if a transformation has computed it
	rated bool         // ScaleByRate has been applied
	state []State      // of the optimiser, in the order of declaration
}

// Scale multiplies the update by x f32[], deferring the product until the update is used.
func (u *Update) Scale(x *graph.Value) {
	if u.scale != nil {
		x = primitives.Mul(u.scale, x)
	}
	u.scale = x
}

// Take returns the update as f32, applying and clearing the factor of Scale.
func (u *Update) Take() *graph.Value {
	if u.next != nil {
		graph.Fail("%s is updated already; a transformation such as AdamW comes last", u.Param.Name)
	}
	d := primitives.ConvertElementType(u.Delta, graph.F32)
	if u.scale != nil {
		d = primitives.Mul(d, primitives.BroadcastTo(u.scale, d.Type.Shape...))
		u.scale = nil
	}
	return d
}

// apply subtracts the update from the parameter.
func (s *Step) apply(u *Update) {
	if u.next == nil {
		if !u.rated {
			graph.Fail("%s is not updated by the optimiser; give it to one, such as AdamW or SGD, or to ScaleByRate, or leave it as it is with On(Named(%q), Freeze)", u.Param.Name, u.Param.Name)
		}
		u.next = s.round(u, primitives.Sub(u.f32(), u.Take()))
	}
}

// f32 returns the parameter as f32.
func (u *Update) f32() *graph.Value { return primitives.ConvertElementType(u.Value, graph.F32) }

// State returns the stored state of a parameter under a short name, such as m: an array of the parameter's shape,
// initially zero. Keep sets its value for the next step.
func (s *Step) State(u *Update, kind string, d graph.DType) *graph.Value {
	shape := u.Param.Type.Shape
	return s.stateOf(u, kind, d, s.moments(u.Param.Place, len(shape)), shape...)
}

// stateOf is State for any shape and placement.
func (s *Step) stateOf(u *Update, kind string, d graph.DType, place []string, shape ...int) *graph.Value {
	st := State{Name: kind + "/" + u.Param.Name, Type: graph.T(d, shape...), Place: place, param: u.index}
	u.state = append(u.state, st)
	return s.Tracer.Input(st.Name, d, shape...)
}

// Keep sets the value that State returns in the next step, rounded to its element type. Every state must be set
// exactly once.
func (s *Step) Keep(u *Update, kind string, v *graph.Value) {
	name := kind + "/" + u.Param.Name
	for _, st := range u.state {
		if st.Name == name {
			s.next[name] = primitives.ConvertElementType(v, st.Type.DType)
			return
		}
	}
	graph.Fail("state %s is not declared; call Step.State first", name)
}

// Report adds a result to the step.
func (s *Step) Report(name string, v *graph.Value) { s.results = append(s.results, v.Named(name)) }

// Chain applies transformations in order.
func Chain(ts ...Transform) Transform {
	return func(s *Step, us []*Update) {
		for _, t := range ts {
			t(s, us)
		}
	}
}

// Select selects parameters. It is called once per trace with all parameters of the model, including frozen ones,
// and returns a predicate. Where makes a Select from a predicate.
type Select func(all []nn.Param) func(nn.Param) bool

// Where selects the parameters satisfying a predicate.
func Where(is func(nn.Param) bool) Select {
	return func([]nn.Param) func(nn.Param) bool { return is }
}

// Matrices selects parameters with two dimensions or more, and stacks of matrices.
func Matrices([]nn.Param) func(nn.Param) bool {
	return func(p nn.Param) bool { return len(p.Type.Shape) > 1 }
}

// All selects all parameters.
func All([]nn.Param) func(nn.Param) bool { return func(nn.Param) bool { return true } }

// Named selects parameters with names matching one of the patterns; a star stands for any text without slashes, as
// in path.Match. Trace fails if a pattern matches none of the model's parameters.
func Named(patterns ...string) Select {
	return func(all []nn.Param) func(nn.Param) bool {
		if len(patterns) == 0 {
			graph.Fail("named: no patterns, want names of parameters, such as %q", "*.weight")
		}
		selected := map[string]bool{}
		for _, pattern := range patterns {
			found := false
			for _, p := range all {
				ok, err := path.Match(pattern, p.Name)
				if err != nil {
					graph.Fail("pattern %q: %w", pattern, err)
				}
				if ok {
					selected[p.Name], found = true, true
				}
			}
			if !found {
				names := parameterNames(all)
				graph.Fail("named: no parameter matches the pattern %q%s", pattern, cmp.Or(near.Names(pattern, slices.Values(names)), "; there are "+strings.Join(names, ", ")))
			}
		}
		return func(p nn.Param) bool { return selected[p.Name] }
	}
}

// Not inverts a Select.
func Not(s Select) Select {
	return func(all []nn.Param) func(nn.Param) bool {
		is := s(all)
		return func(p nn.Param) bool { return !is(p) }
	}
}

func parameterNames(ps []nn.Param) []string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = p.Name
	}
	return names
}

// Freeze leaves parameters unchanged.
func Freeze(s *Step, us []*Update) {
	for _, u := range us {
		if u.next != nil {
			u.Take() // always fails here
		}
		u.next = primitives.ShardingConstraint(u.Value, s.weights(u.Param.Place, u.Value.Rank())...)
	}
}

// On applies transformations to the selected parameters only; selecting none is an error. Parameters not covered by
// any On need another transformation; see Transform.
func On(which Select, ts ...Transform) Transform {
	return func(s *Step, us []*Update) {
		is := which(s.all)
		var some []*Update
		var given []nn.Param
		for _, u := range us {
			given = append(given, u.Param)
			if is(u.Param) {
				some = append(some, u)
			}
		}
		if len(some) == 0 {
			graph.Fail("on: none of the parameters is selected; there are %s", strings.Join(parameterNames(given), ", "))
		}
		Chain(ts...)(s, some)
	}
}

// ClipByGlobalNorm scales all updates by one factor, at most 1, bounding their global norm by limit; 0 means no limit.
// The step reports the norm before clipping as norm.
func ClipByGlobalNorm(limit float64) Transform {
	return func(s *Step, us []*Update) {
		if !(limit >= 0) {
			graph.Fail("clip by global norm: limit %v, want a number above 0, or 0 for none", limit)
		}
		norm := globalNorm(us)
		if s.Report("norm", norm); limit == 0 {
			return
		}
		factor := primitives.Min(primitives.FullLike(norm, 1), primitives.Div(primitives.FullLike(norm, limit), norm))
		for _, u := range us {
			u.Scale(factor)
		}
	}
}

// globalNorm returns the square root of the sum of all squares. It first adds up the sums of parameters with equal
// rank.
func globalNorm(us []*Update) *graph.Value {
	rows := make([]*graph.Value, len(us)) // computed first, so that ranks exchange the sums of many parameters at once
	for i, u := range us {
		if u.scale != nil {
			u.Delta = u.Take()
		}
		rows[i] = squaresByIndex(primitives.ConvertElementType(u.Delta, graph.F32))
	}
	sums := map[int]*graph.Value{} // by number of dimensions
	for i, u := range us {
		x := primitives.ReduceSum(rows[i])
		if old := sums[u.Delta.Rank()]; old != nil {
			x = primitives.Add(old, x)
		}
		sums[u.Delta.Rank()] = x
	}
	var all *graph.Value
	for _, rank := range slices.Sorted(maps.Keys(sums)) {
		if all == nil {
			all = sums[rank]
		} else {
			all = primitives.Add(all, sums[rank])
		}
	}
	if all == nil {
		graph.Fail("clip by global norm: no parameters")
	}
	return primitives.Sqrt(all)
}

// squaresByIndex returns the sum of squares at each index of the first dimension, gathered on every rank. Because
// Zero shards that dimension, summing the result gives the same bits with and without it.
func squaresByIndex(x *graph.Value) *graph.Value {
	x = primitives.Square(x)
	var rest []int
	for d := 1; d < x.Rank(); d++ {
		rest = append(rest, d)
	}
	if rest != nil {
		x = primitives.ReduceSumUnordered(x, rest...)
	}
	return primitives.ShardingConstraint(x)
}
