package evaluate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// Options configures Text. The zero Options uses one rank, and windows of the model's context length, at most
// DefaultWindow.
type Options struct {
	// Config sets the job, mesh, device and deadline. Text sets the placements.
	gomoe.Config
	Window int // tokens per window; 0 means the model's context length, at most DefaultWindow
	// Exchange and Wire configure the return of experts' outputs to their tokens; see nn.Options.
	Exchange ep.Exchange
	Wire     graph.DType
	// Adapters are applied to the model; nil means none.
	Adapters *models.Adapters
	// Copies returns replicas of experts, such as nn.BalanceCopies; nil means none.
	Copies func(layer string, experts int) (ep.Copies, error)
	// Progress, if not nil, is called after each window with the number of processed tokens and the total.
	Progress func(done, total int)
}

// DefaultWindow is the default size of a window in tokens, following llama.cpp.
const DefaultWindow = 512

// Result describes how well a model predicts a text.
type Result struct {
	Tokens, Predicted, Windows int
	Window                     int // tokens per window
	// Loss is the mean of -log(p) over all predicted tokens, in nats, where p is the probability given to the token.
	Loss float64
	// Load holds, for every MoE layer, the share of choices going to each expert.
	Load []Load
	Time time.Duration // of running the windows
}

// Load is the load of a layer's experts.
type Load struct {
	Layer  string    // name, such as model.layers.3.mlp
	Shares []float64 // by expert, summing to 1
}

// Perplexity returns exp(Loss).
func (r Result) Perplexity() float64 { return math.Exp(r.Loss) }

// Text predicts the tokens ids with a model. They are split into consecutive windows. Each window is a separate
// text: every token except the first is predicted from the preceding ones. The last window may be shorter;
// it is skipped if it has a single token, which leaves nothing to predict. Losses are summed in order, so Loss has
// the same bits on every mesh without the axis tp, unless Exchange permits differences. It is an error if there are
// fewer than two tokens, or a token outside the vocabulary.
func Text(ctx context.Context, m *models.Model, c *checkpoint.Checkpoint, ids []int32, o Options) (Result, error) {
	e := &evaluation{m: m, c: c, o: o, jobs: map[int]*gomoe.Job{}}
	r, err := e.run(ctx, ids)
	for _, j := range e.jobs {
		j.Recycle(slices.Collect(maps.Values(e.in))...) // returns memory lent by the files
		err = errors.Join(err, j.Close())
	}
	if err != nil {
		err = fmt.Errorf("evaluate: %w", err)
	}
	return r, err
}

// evaluation is one call of Text.
type evaluation struct {
	m      *models.Model
	c      *checkpoint.Checkpoint
	o      Options
	jobs   map[int]*gomoe.Job // by window size in tokens
	layers []string           // MoE layers
	in     map[string]*runtime.Array
}

func (e *evaluation) run(ctx context.Context, ids []int32) (r Result, err error) {
	if e.o.Window == 0 {
		e.o.Window = min(e.m.Context, DefaultWindow)
	}
	r.Window, r.Tokens = e.o.Window, len(ids)
	switch {
	case e.o.Window < 2 || e.o.Window > e.m.Context:
		return r, fmt.Errorf("windows of %d tokens, want 2 to %d, the most that the model takes", e.o.Window, e.m.Context)
	case len(ids) < 2:
		return r, fmt.Errorf("a text of %d tokens, want at least 2, of which one is predicted", len(ids))
	}
	for i, id := range ids {
		if id < 0 || int(id) >= e.m.Vocab {
			return r, fmt.Errorf("token %d of the text is %d, want one of 0 to %d", i, id, e.m.Vocab-1)
		}
	}
	sum, counts := 0.0, [][]float64{}
	for at := 0; at+1 < len(ids); at += e.o.Window {
		window := ids[at:min(at+e.o.Window, len(ids))]
		job, err := e.job(ctx, len(window))
		if err != nil {
			return r, err
		}
		began := time.Now()
		losses, loads, err := e.window(ctx, job, window)
		if err != nil {
			return r, err
		}
		r.Time += time.Since(began)
		for _, x := range losses[:len(window)-1] {
			sum += float64(x)
		}
		for l, load := range loads {
			if l == len(counts) {
				counts = append(counts, make([]float64, len(load)))
			}
			for i, n := range load {
				counts[l][i] += float64(n)
			}
		}
		r.Windows++
		r.Predicted += len(window) - 1
		if e.o.Progress != nil {
			e.o.Progress(at+len(window), len(ids))
		}
	}
	r.Loss = sum / float64(r.Predicted)
	for l, n := range counts {
		r.Load = append(r.Load, Load{e.layers[l], shares(n)})
	}
	return r, nil
}

// shares divides numbers by their sum.
func shares(n []float64) []float64 {
	sum := 0.0
	for _, x := range n {
		sum += x
	}
	for i := range n {
		n[i] /= max(sum, 1)
	}
	return n
}

// window returns the losses of a window's tokens, the last one being meaningless, and the tokens of each expert by
// layer.
func (e *evaluation) window(ctx context.Context, job *gomoe.Job, window []int32) (losses []float32, loads [][]int32, err error) {
	next := append(append([]int32{}, window[1:]...), primitives.IgnoredLabel)
	for name, x := range map[string][]int32{"tokens": window, "next": next} {
		a, err := array.Of(x, 1, len(x))
		if err != nil {
			return nil, nil, err
		}
		if e.in[name], err = job.Put(name, a); err != nil {
			return nil, nil, err
		}
	}
	out, err := job.Run(ctx, e.in)
	if err != nil {
		return nil, nil, err
	}
	for i, x := range out {
		a, err := job.Get(ctx, x)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			losses = append(losses, array.Data[float32](a)...)
		} else {
			loads = append(loads, append([]int32{}, array.Data[int32](a)...))
		}
	}
	job.Recycle(append(out, e.in["tokens"], e.in["next"])...)
	return losses, loads, nil
}

// job returns the job for windows of n tokens. The first one loads the weights.
func (e *evaluation) job(ctx context.Context, n int) (*gomoe.Job, error) {
	if j := e.jobs[n]; j != nil {
		return j, nil
	}
	var params []nn.Param
	p, err := graph.Trace("evaluate", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: models.DType(e.c), Stored: models.Stored(e.c), Exchange: e.o.Exchange, Wire: e.o.Wire, Copies: e.o.Copies, LoRA: e.o.Adapters.Options()})
		logits := e.m.Forward(s, t.Input("tokens", graph.I32, 1, n), &nn.Step{})
		loss := primitives.CrossEntropy(primitives.ConvertElementType(logits, graph.F32), t.Input("next", graph.I32, 1, n))
		out := []*graph.Value{primitives.ShardingConstraint(loss).Named("loss")}
		params, e.layers = s.Params(), nil
		for _, r := range s.Routed() {
			e.layers = append(e.layers, r.Layer)
			out = append(out, primitives.ShardingConstraint(r.Demand).Named(r.Layer))
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	cfg := e.o.Config
	cfg.Place, cfg.Keep = nn.Places(params, cfg.Mesh), gomoe.Off // packed copies of the weights would take as much memory as the weights
	j, err := gomoe.Open(ctx, p, cfg)
	if err != nil {
		return nil, err
	}
	e.jobs[n] = j
	if len(e.jobs) > 1 {
		return j, nil // the weights are loaded
	}
	if err := models.Surplus(e.c, e.o.Adapters.Base(params)); err != nil {
		return nil, err
	}
	weights := map[string]*models.Weight{}
	for _, p := range params {
		if weights[p.Name], err = e.o.Adapters.Find(e.c, p); err != nil {
			return nil, err
		}
	}
	e.in, err = models.Lend(j.Session, e.c, weights)
	return j, err
}
