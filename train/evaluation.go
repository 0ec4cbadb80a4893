package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// Evaluation is a program reading a run's parameters without changing them, for example to compute a held-out loss.
// Its methods must not be called concurrently, nor during a step.
type Evaluation struct {
	Job *gomoe.Job

	run   *Run
	p     *Program
	in    map[string]*runtime.Array
	param []string // names of the parameters it reads
	names []string // names of its results
}

// Evaluation compiles a program that reads the run's parameters, on the run's ranks. forward traces the program in
// a scope, as for Trace, and returns named results. cfg configures its inputs and execution; the mesh, the world,
// the deadline and the placements of parameters are taken from the run. It is an error if forward declares a
// parameter that the step lacks or that has another type. If the step has microbatches, the evaluation has the same
// number: forward declares the inputs of one microbatch, and results are combined as described at Trace. When ctx
// ends, compilation stops. The caller must call Close.
func (r *Run) Evaluation(ctx context.Context, name string, cfg gomoe.Config, forward func(*nn.Scope) []*graph.Value) (*Evaluation, error) {
	var params []nn.Param
	model := r.p.config.Model
	model.Key = nil // no dropout
	var batch []string
	p, err := graph.Trace(name, func(t *graph.Tracer) []*graph.Value {
		f := func(s *nn.Scope) (*graph.Value, []*graph.Value) { return nil, forward(s) }
		var all pass
		if n := r.p.config.Microbatches; n > 1 {
			all = micro(t, model, n, f, false)
		} else {
			all = atOnce(t, model, f)
		}
		params, batch = all.params, all.batch
		return all.results
	})
	if err != nil {
		return nil, err
	}
	types, specs := map[string]graph.Type{}, map[string]sharding.Spec{}
	for _, st := range r.p.State {
		types[st.Name], specs[st.Name] = st.Type, st.Spec(r.world.Mesh)
	}
	for _, q := range r.p.Frozen {
		types[q.Name], specs[q.Name] = q.Type, q.Spec(r.world.Mesh)
	}
	e := &Evaluation{run: r, p: &Program{Program: p, batch: batch}, in: map[string]*runtime.Array{}}
	cfg.Place = maps.Clone(cfg.Place)
	if cfg.Place == nil {
		cfg.Place = map[string]sharding.Spec{}
	}
	for _, name := range batch {
		if spec, ok := cfg.Place[name]; ok {
			cfg.Place[name] = over(spec)
		}
	}
	for _, q := range params {
		if has, ok := types[q.Name]; !ok || !has.Equal(q.Type) {
			return nil, fmt.Errorf("train: %s: parameter %s %s: %s has no such parameter", name, q.Name, q.Type, r.p.Name)
		}
		cfg.Place[q.Name] = specs[q.Name]
		e.param = append(e.param, q.Name)
	}
	cfg.World, cfg.Mesh, cfg.Deadline = r.world.World, r.world.Mesh, r.world.Deadline
	if e.Job, err = gomoe.Open(ctx, p, cfg); err != nil {
		return nil, err
	}
	for i, out := range e.Job.Plan().Out {
		e.names = append(e.names, cmp.Or(p.Out[i].Name, out.Name))
	}
	return e, nil
}

// Run evaluates the program with inputs and the run's current parameters, and returns the results by name.
func (e *Evaluation) Run(ctx context.Context, inputs map[string]array.Array) (map[string]*runtime.Array, error) {
	return e.RunParts(ctx, Whole(inputs))
}

// RunParts is Run for inputs of which this process writes only its ranks' parts.
func (e *Evaluation) RunParts(ctx context.Context, inputs Parts) (map[string]*runtime.Array, error) {
	if e.run.state == nil {
		return nil, fmt.Errorf("train: %s: there is no state; call Init or Restore before", e.run.p.Name)
	}
	clear(e.in)
	if err := inputs.put(e.Job, e.p, e.in); err != nil {
		return nil, err
	}
	for _, name := range e.param {
		if e.in[name] = e.run.state[name]; e.in[name] == nil {
			e.in[name] = e.run.fixed[name]
		}
		if e.in[name] == nil {
			return nil, fmt.Errorf("train: %s: %s is frozen and has no value; call Run.Put before", e.run.p.Name, name)
		}
	}
	out, err := e.Job.Run(ctx, e.in)
	if err != nil {
		return nil, err
	}
	results := map[string]*runtime.Array{}
	for i, a := range out {
		results[e.names[i]] = a
	}
	return results, nil
}

// Scalar calls Run and returns the named result, a number.
func (e *Evaluation) Scalar(ctx context.Context, name string, inputs map[string]array.Array) (float64, error) {
	x, err := e.Scalars(ctx, Whole(inputs), name)
	if err != nil {
		return 0, err
	}
	return x[0], nil
}

// Scalars calls RunParts and returns the named results, which are numbers.
func (e *Evaluation) Scalars(ctx context.Context, inputs Parts, names ...string) ([]float64, error) {
	out, err := e.RunParts(ctx, inputs)
	if err != nil {
		return nil, err
	}
	x := make([]float64, len(names))
	for i, name := range names {
		if out[name] == nil {
			return nil, fmt.Errorf("train: no result of the evaluation is named %s", name)
		}
		a, err := e.Job.Get(ctx, out[name])
		if err != nil {
			return nil, err
		}
		x[i] = a.Float64s()[0]
	}
	return x, nil
}

// Close releases the ranks.
func (e *Evaluation) Close() error { return e.Job.Close() }
