package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/vjp"
)

// Config configures a training step.
type Config struct {
	Optimizer Transform
	Model     nn.Options
	// Zero selects the state to shard over the mesh axes Batch, where each rank has different sequences.
	Zero  Zero
	Batch []string
	// Average keeps exponential moving averages of the parameters, giving the past this weight. 0 keeps none.
	Average float64
	// Even balances experts without a loss. In every step it changes the bias used for choosing experts: it adds this
	// number for each expert with less than its share of choices, and subtracts it for each with more. The optimiser
	// then skips these parameters. With 0 they are left to the optimiser, with a gradient of 0. It is an error if no
	// layer has a bias. A typical value is 0.001.
	Even float64
	// Stochastic rounds BF16 parameters up or down at random, so that many small steps are not lost to rounding. The
	// random numbers depend on the step, the parameter and the element, and are the same on every mesh.
	Stochastic bool
	// Microbatches is the number of microbatches per batch; a step then needs the activation memory of one microbatch
	// only. The model is traced for one microbatch. A loop runs them in order, accumulating gradients in f32, and
	// ranks exchange the sums once at the end. 0 and 1 mean no splitting. The loss is the mean over microbatches,
	// weighted by the result weight f32[] if there is one. Load-balancing losses are computed per microbatch.
	Microbatches int
	// Gradients also returns the gradients, as results named grad/ followed by the parameter's name.
	Gradients bool
}

// Program is a traced step.
type Program struct {
	*graph.Program
	Params []nn.Param // trained by the step
	Frozen []nn.Param // inputs that the step does not train; Run.Put sets them
	State  []State    // parameters and optimiser state

	config Config
	first  int      // index of the result for the new State[0]; the others follow
	batch  []string // inputs with microbatches along a first dimension
}

// State is an array kept on its ranks between steps: an input of the step, and the result that replaces it.
type State struct {
	Name string // a parameter's name; optimiser state has a prefix, such as m/ and v/ for AdamW, or lion/
	Type graph.Type
	// Init is the initial distribution.
	Init nn.Init
	// Place lists the mesh axes splitting each dimension, separated by dots.
	Place []string

	param int  // index of the parameter it is, or belongs to
	copy  bool // starts as a copy of the parameter
}

// Step is a step being traced. Transformations declare their state in it.
type Step struct {
	Tracer *graph.Tracer
	Rate   *graph.Value // the learning rate, f32[]
	Number *graph.Value // of the step, i32[], counting from 1

	config  Config
	all     []nn.Param // of the model, including frozen ones
	state   []State
	next    map[string]*graph.Value // the new state, by name
	results []*graph.Value
}

// Trace traces a training step. forward traces the model in a scope, declares its inputs, and returns the loss
// f32[] to minimise and named results for the caller. With Config.Microbatches it declares the inputs of one
// microbatch. Run.Step still receives the whole batch, with that many times the rows, split in order. Results must
// then be f32[], which are averaged, or i32 or i64, which are summed.
//
// The inputs of the step are the inputs of forward, rate f32[] (the learning rate) and step i32[] (the number of
// the step, counting from 1). Its results are the results of forward, values reported by transformations, such as
// norm f32[], and the state.
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

// trace adds the optimiser and the averages to the gradients. It returns the number of results preceding the state,
// the state, and all results.
func (s *Step) trace(gradients []*graph.Value, params []nn.Param, values []*graph.Value, routed []nn.Routed) (int, []State, []*graph.Value) {
	us := make([]*Update, len(params))
	for i, g := range gradients {
		us[i] = &Update{Param: params[i], Value: values[i], index: i, Delta: primitives.ShardingConstraint(g, s.moments(params[i].Place, g.Rank())...)}
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
