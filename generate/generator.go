package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	pr "github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// Options say where and how a Generator computes. The zero Options are one rank, and caches of the type that the
// model is calculated in.
type Options struct {
	// Config has the job, mesh, device and deadline. Placements and donations are the Generator's.
	gomoe.Config
	Room  int         // positions that the caches have; 0 means the model's context
	Cache graph.DType // element type of the caches; zero means the one that the model is calculated in
}

// Generator has a model with its weights on the ranks of a mesh, and the caches of one sequence. It is not safe for
// concurrent use. In a job of several processes all of them call the same methods with the same arguments.
type Generator struct {
	model  *models.Model
	c      *checkpoint.Checkpoint
	o      Options
	params []nn.Param
	jobs   map[int]*gomoe.Job // by the number of tokens of a step
	caches []string
	in     map[string]*runtime.Array
	seen   []int32 // the tokens whose keys and values are in the caches
	failed error   // of a step; the caches are lost with it
}

// blocks are the numbers of tokens that a step may have, the largest first. A prompt is cut into them.
func blocks() []int { return []int{128, 32, 8, 1} }

// Open opens a model and puts its weights on the ranks: each rank reads its own part of the files. The caller must
// call Close. The checkpoint may be closed after Open has returned.
func Open(m *models.Model, c *checkpoint.Checkpoint, o Options) (g *Generator, err error) {
	if o.Room == 0 {
		o.Room = m.Context
	}
	if o.Room < 1 {
		return nil, fmt.Errorf("generate: room for %d positions, want at least 1", o.Room)
	}
	o.Keep = gomoe.Off // copies of weights would take as much memory as the weights
	g = &Generator{model: m, c: c, o: o, jobs: map[int]*gomoe.Job{}, in: map[string]*runtime.Array{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	job, err := g.job(1)
	if err != nil {
		return g, err
	}
	if err := models.Surplus(c, g.params); err != nil {
		return g, err
	}
	if err := g.fits(job, memory.Available()); err != nil {
		return g, err
	}
	for _, p := range g.params {
		w, err := models.Find(c, p)
		if err != nil {
			return g, err
		}
		if g.in[p.Name], err = job.PutParts(p.Name, w.Fill); err != nil {
			return g, err
		}
	}
	for _, in := range job.Plan().In {
		if g.in[in.Name] == nil && in.Name != "tokens" && in.Name != "start" { // caches
			if g.in[in.Name], err = job.PutParts(in.Name, func(p runtime.Part) error { clear(p.Bytes()); return nil }); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// fits returns an error if the weights and caches of this process's ranks take more memory than there is.
func (g *Generator) fits(job *gomoe.Job, can memory.Limit) error {
	var caches float64
	for _, in := range job.Plan().In {
		if !slices.ContainsFunc(g.params, func(p nn.Param) bool { return p.Name == in.Name }) {
			caches += float64(in.Type.Bytes()) // of all ranks, where tp splits them
		}
	}
	need := float64(job.Plan().Report(1).Mem.Inputs) * float64(len(job.Local()))
	if max(need, caches) <= float64(can.Bytes) {
		return nil
	}
	return fmt.Errorf("generate: weights and caches with room for %d positions take %s in this process, of which the caches of all ranks are %s, and %s can be had (%s); make less room, or spread the model over more processes",
		g.o.Room, memory.Format(max(need, caches)), memory.Format(caches), memory.Format(float64(can.Bytes)), can.By)
}

// Close ends the ranks.
func (g *Generator) Close() error {
	var errs []error
	for _, j := range g.jobs {
		errs = append(errs, j.Close())
	}
	g.jobs = nil
	return errors.Join(errs...)
}

// Plan returns the plan of a step of one token, whose Report has the memory.
func (g *Generator) Plan() *lowering.Plan { return g.jobs[1].Plan() }

// Room returns how many positions the caches have.
func (g *Generator) Room() int { return g.o.Room }

// job returns what runs n tokens.
func (g *Generator) job(n int) (*gomoe.Job, error) {
	if j := g.jobs[n]; j != nil {
		return j, nil
	}
	donate := map[string]int{}
	g.caches = nil
	p, err := graph.Trace("step", func(t *graph.Tracer) []*graph.Value {
		s := nn.New(t, nn.Options{DType: models.DType(g.c), Stored: g.stored})
		st := &nn.Step{Start: t.Input("start", graph.I32, 1), Room: g.o.Room, Cache: g.o.Cache, Last: true}
		logits := g.model.Forward(s, t.Input("tokens", graph.I32, 1, n), st)
		g.params = s.Params()
		out := []*graph.Value{pr.ShardingConstraint(logits).Named("logits")}
		for _, c := range st.Caches() {
			donate[c.In.Name] = len(out)
			g.caches, out = append(g.caches, c.In.Name), append(out, c.Out)
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	cfg := g.o.Config
	cfg.Place, cfg.Donate = nn.Places(g.params, cfg.Mesh), donate
	if cfg.Mesh.Size("tp") > 0 {
		for _, in := range p.In { // caches of keys and values lie with the heads
			if _, ok := donate[in.Name]; ok {
				cfg.Place[in.Name] = nn.Param{Place: g.model.CachePlace}.Spec(cfg.Mesh)
			}
		}
	}
	j, err := gomoe.Open(p, cfg)
	if err != nil {
		return nil, err
	}
	g.jobs[n] = j
	return j, nil
}

// stored returns the element type of a parameter, which is known without the files once they were looked at.
func (g *Generator) stored(p nn.Param) (graph.DType, error) {
	if a := g.in[p.Name]; a != nil {
		return a.Type.DType, nil
	}
	return models.Stored(g.c)(p)
}

// Token is a token that was generated.
type Token struct {
	ID      int32
	LogProb float64 // the logarithm of its probability, as the model has it
}

// Times are how long the parts of a generation took.
type Times struct {
	Prompt, Tokens     int           // tokens of the prompt that were computed, and tokens generated
	PromptTime, Decode time.Duration // for the prompt with the first token, and for all further tokens
}

// Generate continues a prompt with up to n tokens and calls emit with each, which ends the generation by returning
// false. What the caches hold from the call before is used again as far as the prompt begins with it. It is an error
// if prompt and tokens together need more room than there is: see Room. After an error of a step, which has lost the
// caches, all further calls return it.
func (g *Generator) Generate(ctx context.Context, prompt []int32, n int, s Sampling, emit func(Token) bool) (times Times, err error) {
	if err := s.Check(); err != nil {
		return times, err
	}
	switch {
	case g.failed != nil:
		return times, g.failed
	case len(prompt) == 0:
		return times, errors.New("generate: an empty prompt, want at least one token")
	case n < 1:
		return times, fmt.Errorf("generate: %d tokens to generate, want at least 1", n)
	case n > g.o.Room || len(prompt)+n-1 > g.o.Room:
		return times, fmt.Errorf("generate: a prompt of %d tokens and %d more need room for %d positions, and there is room for %d; generate at most %d, or open the model with more room",
			len(prompt), n, len(prompt)+n-1, g.o.Room, max(0, g.o.Room-len(prompt)+1))
	}
	for i, id := range prompt {
		if id < 0 || int(id) >= g.model.Vocab {
			return times, fmt.Errorf("generate: token %d of the prompt is %d, want one of 0 to %d", i, id, g.model.Vocab-1)
		}
	}
	common := 0
	for common < min(len(g.seen), len(prompt)-1) && g.seen[common] == prompt[common] {
		common++
	}
	g.seen = g.seen[:common]
	times.Prompt = len(prompt) - common
	ids, began := append([]int32{}, prompt...), time.Now()
	for range n {
		logits, err := g.run(ctx, ids)
		if err != nil {
			return times, err
		}
		t := Token{}
		if t.ID, t.LogProb, err = s.Choose(logits, ids); err != nil {
			return times, err
		}
		if times.Tokens++; times.Tokens == 1 {
			times.PromptTime, began = time.Since(began), time.Now()
		}
		times.Decode = time.Since(began)
		ids = append(ids, t.ID)
		if !emit(t) {
			break
		}
	}
	return times, nil
}

// run computes what the caches lack of ids, and returns the logits of the token after the last.
func (g *Generator) run(ctx context.Context, ids []int32) (logits []float32, err error) {
	for at := len(g.seen); at < len(ids); at = len(g.seen) {
		n := 0
		for _, b := range blocks() {
			if n = b; b <= len(ids)-at {
				break
			}
		}
		job, err := g.job(n)
		if err != nil {
			return nil, err
		}
		tokens, err := array.Of(ids[at:at+n], 1, n)
		if err != nil {
			return nil, err
		}
		start, err := array.Of([]int32{int32(at)}, 1)
		if err != nil {
			return nil, err
		}
		for name, a := range map[string]array.Array{"tokens": tokens, "start": start} {
			if g.in[name], err = job.Put(name, a); err != nil {
				return nil, err
			}
		}
		out, err := job.Run(ctx, g.in)
		if err != nil {
			g.failed = fmt.Errorf("generate: %w", err)
			return nil, g.failed
		}
		for i, name := range g.caches {
			g.in[name] = out[1+i]
		}
		g.seen = append(g.seen, ids[at:at+n]...)
		if len(g.seen) == len(ids) {
			a, err := job.Get(ctx, out[0])
			if err != nil {
				return nil, err
			}
			logits = append([]float32{}, array.Data[float32](a)...)
		}
		job.Recycle(out[0], g.in["tokens"], g.in["start"])
	}
	return logits, nil
}
