package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
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
	all     []nn.Param              // of the model, including frozen ones
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
		for _, st := range u.state {
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

// Zero selects the state to shard in its first dimension, over the ranks that process different sequences but hold
// the same shard of a weight. It saves memory without changing the computation.
type Zero string

const (
	ZeroOff     Zero = ""
	ZeroMoments Zero = "moments" // the optimiser's state
	ZeroWeights Zero = "weights" // the weights as well, gathering them where the model uses them
)

// String returns off for ZeroOff.
func (z Zero) String() string { return cmp.Or(string(z), "off") }

// moments returns the placement of optimiser state for a parameter placed as given. Each dimension lists its mesh
// axes, separated by dots.
func (s *Step) moments(place []string, rank int) []string {
	return s.split(place, rank, s.config.Zero != ZeroOff)
}

// weights returns the placement of the parameter.
func (s *Step) weights(place []string, rank int) []string {
	return s.split(place, rank, s.config.Zero == ZeroWeights)
}

func (s *Step) split(place []string, rank int, over bool) []string {
	dims := make([]string, rank)
	copy(dims, place)
	if !over || rank == 0 {
		return dims
	}
	for _, axis := range s.config.Batch {
		if !slices.Contains(place, axis) {
			dims[0] = strings.TrimPrefix(dims[0]+"."+axis, ".")
		}
	}
	return dims
}

// Spec returns the placement on a mesh, leaving out axes missing from the mesh.
func (st State) Spec(m sharding.Mesh) sharding.Spec { return st.everywhere().On(m) }

// everywhere returns the placement with all axes, including those missing from the mesh, for gomoe.Config.Place.
func (st State) everywhere() sharding.Spec { return sharding.Split(st.Place...) }

// roundingSeed seeds the random numbers for Config.Stochastic, independently of data and initial weights.
const roundingSeed = 0x726f756e64

// round converts the new value of a parameter, f32, to the parameter's element type.
func (s *Step) round(u *Update, x *graph.Value) *graph.Value {
	if !s.config.Stochastic || u.Value.Type.DType != graph.BF16 {
		return primitives.ConvertElementType(x, u.Value.Type.DType)
	}
	key := primitives.RandomFoldIn(primitives.RandomKey(s.Tracer, roundingSeed), s.Number)
	key = primitives.RandomFoldIn(key, primitives.Full(s.Tracer, float64(u.index), graph.U32))
	return primitives.StochasticRound(x, key)
}

// balance updates the routers' biases, if Config.Even is set, and returns the updates of all other parameters,
// which are left to the optimiser.
//
//	bias[e] = bias[e] + Even · sign(Σ demand / E - demand[e])
//
// demand i32[E] counts how often each expert was chosen, over all tokens; it is the same on every mesh. Source:
// Wang et al., "Auxiliary-loss-free load balancing strategy for mixture-of-experts" (2024), algorithm 1.
func (s *Step) balance(us []*Update, routed []nn.Routed) []*Update {
	if s.config.Even == 0 {
		return us
	}
	demand := map[string]*graph.Value{} // by name of the bias
	for _, r := range routed {
		if r.Bias == "" {
			continue
		}
		d := primitives.ConvertElementType(r.Demand, graph.I64) // E times the number of choices exceeds i32
		if demand[r.Bias] != nil {                              // a layer applied several times
			d = primitives.Add(demand[r.Bias], d)
		}
		demand[r.Bias] = d
	}
	if len(demand) == 0 {
		graph.Fail("even: no layer of experts has a bias for choosing experts, as models of deepseek_v3 and glm4_moe have (nn.MoE.Bias); leave out even")
	}
	var rest []*Update
	for _, u := range us {
		d := demand[u.Param.Name]
		if d == nil {
			rest = append(rest, u)
			continue
		}
		if u.Value.Type.DType != graph.F32 {
			graph.Fail("balancing without a loss: %s is %s, in which small steps are lost, want f32; say so in Config.Model.Stored", u.Param.Name, u.Value.Type)
		}
		total := primitives.BroadcastTo(primitives.ReduceSum(d, 0), d.Type.Shape...)
		missing := primitives.Sub(total, primitives.MulScalar(d, float64(d.Dim(0))))
		u.next = primitives.Add(u.Value, primitives.MulScalar(primitives.ConvertElementType(primitives.Sign(missing), graph.F32), s.config.Even))
	}
	return slices.Clip(rest)
}
