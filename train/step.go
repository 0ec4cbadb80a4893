package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// Config says how a step trains.
type Config struct {
	Optimizer Transform
	Model     nn.Options
	// Zero is what is split over the mesh axes Batch, of which each rank has other sequences.
	Zero  Zero
	Batch []string
	// Average has the step keep moving averages of the parameters, in which the past has this weight. 0 keeps none.
	Average float64
	// Even balances experts without a loss: in every step, the bias by which a router's experts are chosen grows by this
	// number for each expert with less than its share of the tokens' choices, and falls by it for each with more. The
	// optimiser leaves these parameters alone. 0 leaves them to the optimiser, for which their gradient is 0; it is an
	// error if no layer has a bias. A usual value is 0.001.
	Even float64
	// Stochastic rounds parameters of BF16 up or down at random, so that the mean of many small steps is not lost. The
	// random numbers are a function of the step, the parameter and the element, and the same on every mesh.
	Stochastic bool
	// Microbatches is into how many parts a batch is cut, so that a step takes the memory of one: the model is traced for one
	// of them, a loop runs it on one after the other and adds up the gradients, in f32, and ranks exchange the sums once, at
	// its end. 0 and 1 cut nothing. The loss is the mean of theirs; with a result named weight f32[] a microbatch counts as
	// much as that says. Losses that balance experts are those of a microbatch's tokens.
	Microbatches int
	// Gradients has the step return the gradients, too, as results named grad/ and the parameter.
	Gradients bool
}

// Program is a traced step.
type Program struct {
	*graph.Program
	Params []nn.Param // that the step trains
	Frozen []nn.Param // that it does not; inputs, which Run.Put gives it
	State  []State    // the parameters and what the optimiser keeps of them

	config Config
	first  int      // the result that is the new State[0]; the others follow
	batch  []string // the inputs that have the microbatches along a first dimension
}

// State is an array that stays on its ranks from step to step, an input of the step and the result that
// takes its place.
type State struct {
	Name string // that of a parameter; what is kept of it has a prefix of its optimiser, such as m/ and v/ of AdamW, or lion/
	Type graph.Type
	// Init is how it begins.
	Init nn.Init
	// Place has, per dimension, the mesh axes that split it, with dots between.
	Place []string

	param int  // the number of the parameter that it is, or is kept of
	copy  bool // it begins as the parameter does
}

// Step is a step that is being traced. Transformations declare what they keep in it.
type Step struct {
	Tracer *graph.Tracer
	Rate   *graph.Value // the learning rate, f32[]
	Number *graph.Value // of the step, i32[], which begins with 1

	config  Config
	all     []nn.Param // of the model, frozen ones too
	state   []State
	next    map[string]*graph.Value // the new state by name
	results []*graph.Value
}

// Trace traces a training step. forward traces the model in a scope, declares its inputs, and returns the loss f32[] that
// is minimised and named results for the caller. With Config.Microbatches it declares the inputs of one microbatch, and
// Run.Step is given those of the whole batch: as many times the rows, which are cut in order. Its results are then numbers
// f32[], of which the step returns the mean, and i32 or i64, which are added up.
//
// The inputs of the step are those of forward, rate f32[] (the learning rate) and step i32[] (the number of the
// step, which begins with 1). Its results are those of forward, what transformations report, such as norm f32[], and
// the state.
func Trace(name string, c Config, forward func(*nn.Scope) (loss *graph.Value, results []*graph.Value)) (*Program, error) {
	if c.Optimizer == nil {
		return nil, fmt.Errorf("train: %s: no optimiser, want one in Config.Optimizer, such as AdamW", name)
	}
	if !slices.Contains([]Zero{ZeroOff, ZeroMoments, ZeroWeights}, c.Zero) {
		return nil, fmt.Errorf("train: %s: zero %q, want nothing, %q or %q", name, c.Zero, ZeroMoments, ZeroWeights)
	}
	if c.Zero != ZeroOff && len(c.Batch) == 0 {
		return nil, fmt.Errorf("train: %s: zero %q splits over the axes of the batch, and Config.Batch names none; want some, such as dp and ep", name, c.Zero)
	}
	if !(c.Average >= 0 && c.Average < 1) {
		return nil, fmt.Errorf("train: %s: average %v, want at least 0 and less than 1", name, c.Average)
	}
	if !(c.Even >= 0 && c.Even <= math.MaxFloat32) {
		return nil, fmt.Errorf("train: %s: even %v, want a finite number of at least 0", name, c.Even)
	}
	c.Model.Gather = c.Model.Gather || c.Zero == ZeroWeights
	if c.Microbatches < 0 {
		return nil, fmt.Errorf("train: %s: %d microbatches, want at least 0", name, c.Microbatches)
	}
	p := &Program{config: c}
	var err error
	p.Program, err = graph.Trace(name, func(t *graph.Tracer) []*graph.Value {
		var m pass
		if c.Microbatches > 1 {
			m = micro(t, c.Model, c.Microbatches, forward, true)
		} else {
			m = atOnce(t, c.Model, forward)
		}
		s := &Step{Tracer: t, Rate: t.Input("rate", graph.F32), Number: t.Input("step", graph.I32), config: c, all: m.params, next: map[string]*graph.Value{}, results: m.results}
		var values []*graph.Value
		for i, v := range m.values {
			if param := m.params[i]; param.Frozen {
				p.Frozen = append(p.Frozen, param)
			} else {
				p.Params, values = append(p.Params, param), append(values, v)
			}
		}
		if len(values) == 0 {
			graph.Fail("the model has no parameters; declare them in the scope")
		}
		if c.Microbatches <= 1 {
			m.grads = vjp.Gradients(m.loss, values...)
		}
		p.batch = m.batch
		var results []*graph.Value
		p.first, p.State, results = s.trace(m.grads, p.Params, values, m.routed)
		return results
	})
	return p, err
}

// trace adds the optimiser and the averages to the gradients. It returns the number of results before the state, the state,
// and all results.
func (s *Step) trace(gradients []*graph.Value, params []nn.Param, values []*graph.Value, routed []nn.Routed) (int, []State, []*graph.Value) {
	us := make([]*Update, len(params))
	for i, g := range gradients {
		us[i] = &Update{Param: params[i], Value: values[i], index: i, Delta: pr.ShardingConstraint(g, s.moments(params[i].Place, g.Rank())...)}
	}
	grads := make([]*graph.Value, len(us))
	for i, u := range us {
		grads[i] = u.Delta
	}
	s.config.Optimizer(s, s.balance(us, routed))
	first := len(s.results)
	var all []State
	out := slices.Clone(s.results)
	for i, u := range us {
		s.apply(u)
		if s.config.Average > 0 {
			s.average(u)
		}
		shape := u.Param.Type.Shape
		all = append(all, State{Name: u.Param.Name, Type: u.Param.Type, Init: u.Param.Init, Place: s.weights(u.Param.Place, len(shape)), param: i})
		out = append(out, u.next.Named("new/"+u.Param.Name))
		for _, st := range s.state {
			if st.param != i {
				continue
			}
			v, ok := s.next[st.Name]
			if !ok {
				graph.Fail("state %s has no new value; set it with Step.Keep", st.Name)
			}
			all, out = append(all, st), append(out, v.Named("new/"+st.Name))
		}
	}
	if s.config.Gradients {
		for i, u := range us {
			out = append(out, grads[i].Named("grad/"+u.Param.Name))
		}
	}
	return first, all, out
}
