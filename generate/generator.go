package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/tokenizer"
)

// Options say where and how a Generator computes. The zero Options are one rank, one sequence at a time, and caches of
// the type that the model is calculated in.
type Options struct {
	// Config has the job, mesh, device and deadline. Placements and donations are the Generator's.
	gomoe.Config
	Room      int         // positions that the caches of a sequence have; 0 means the model's context
	Cache     graph.DType // element type of the caches; zero means the one that the model is calculated in
	Sequences int         // how many are generated at once; 0 means 1
	Queue     int         // how many requests may wait for a place; 0 means any number
	// Exchange and Wire are how rows come home from the experts; see nn.Options.
	Exchange ep.Exchange
	Wire     graph.DType
	// Adapters are what the model is used with beside its weights; nil for nothing.
	Adapters *models.Adapters
	// Copies are copies of the experts, such as nn.BalanceCopies returns; nil means none. The tokens are those without
	// copies, to the bit.
	Copies func(layer string, experts int) (ep.Copies, error)
	// Tokenizer makes the text of tokens. nil leaves Token.Text empty.
	Tokenizer *tokenizer.Tokenizer
}

// Generator has a model with its weights on the ranks of a mesh, and the caches of some sequences, which it generates
// together, a token of each in a step. In a job of several processes all of them call Open with the same Options, the
// first one calls Generate, and all others call Follow. The methods of a Generator may be called by many goroutines.
type Generator struct {
	model  *models.Model
	c      *checkpoint.Checkpoint
	o      Options
	params []nn.Param
	jobs   map[shape]*gomoe.Job
	args   map[shape]*arguments
	kept   map[shape][]nn.Cache // the caches of a shape's program
	in     map[string]*runtime.Array
	forms  map[string]nn.Form // of the parameters
	mapped int64              // bytes of weights of a rank that lie in files
	slots  []*slot
	peers  *peers          // nil if this is the only process
	asked  context.Context // ends when another process was asked to end
	stop   context.CancelCauseFunc
	open   context.Context // ends with Close
	close  context.CancelCauseFunc

	mu      sync.Mutex
	queue   []*sequence
	running []*sequence // those with a place, the oldest first
	stats   Stats
	closing bool
	failed  error         // of a step; the caches are lost with it
	wake    chan struct{} // has an element if the loop is to look
	done    chan struct{} // is closed when the loop has ended
}

// Stats are what a Generator does, and has done since it was opened.
type Stats struct {
	Running, Waiting          int // requests
	Sequences, Queue          int // as Options have them
	Requests                  int // that have got a place
	Prompt, Reused, Generated int // tokens of prompts that were computed, that were in caches, and tokens generated
	Steps                     int
	Busy                      time.Duration // for which steps ran
}

// blocks are the numbers of tokens that a step of one sequence may have, the largest first. A prompt is cut into them.
// A block of 512 gives each expert enough rows that its weights are unpacked once for many: blocks of 128 take 1.25 times
// as long on a core with AVX-512, and 1.4 times on one with AMX.
func blocks() []int { return []int{512, 128, 32, 8, 1} }

// besides is the most tokens of a step for which other sequences wait.
const besides = 128

// mostScored is the most tokens of a step with the logits of all of them. With a vocabulary of 150,000 tokens they take
// 20 MB.
const mostScored = 32

// block returns the number of tokens of the next step of a sequence that lacks so many.
func (g *Generator) block(lacks int) int {
	i := slices.IndexFunc(blocks(), func(b int) bool { return b <= lacks })
	return blocks()[i]
}

// usual returns o with what is meant where it is 0, or an error if it has no meaning.
func (o Options) usual(m *models.Model) (Options, error) {
	if o.Room == 0 {
		o.Room = m.Context
	}
	if o.Sequences == 0 {
		o.Sequences = 1
	}
	switch {
	case o.Room < 1:
		return o, fmt.Errorf("generate: room for %d positions, want at least 1", o.Room)
	case o.Sequences < 0:
		return o, fmt.Errorf("generate: %d sequences, want at least 1", o.Sequences)
	case o.Queue < 0:
		return o, fmt.Errorf("generate: a queue of %d requests, want at least 1, or 0 for any number", o.Queue)
	}
	o.Keep = gomoe.Off // copies of weights would take as much memory as the weights
	return o, nil
}

// Open opens a model and puts its weights on the ranks: each rank reads its own part of the files. The caller must
// call Close. The checkpoint may be closed after Open has returned. The end of ctx ends compiling, in all
// processes of a job with an error that names the one whose ctx has ended; a Generator that is open does not depend on ctx.
func Open(ctx context.Context, m *models.Model, c *checkpoint.Checkpoint, o Options) (g *Generator, err error) {
	if o, err = o.usual(m); err != nil {
		return nil, err
	}
	g = newGenerator(m, c, o)
	defer func() {
		if err != nil {
			close(g.done)
			err = errors.Join(err, g.Close())
		}
	}()
	if err := g.place(ctx, memory.Available); err != nil {
		return g, err
	}
	if g.peers, err = meet(o.World, o.Sequences); err != nil {
		return g, err
	}
	if g.peers == nil || g.peers.first {
		go g.loop(context.Background())
	} else {
		close(g.done)
	}
	return g, nil
}

// newGenerator returns a generator that has nothing yet.
func newGenerator(m *models.Model, c *checkpoint.Checkpoint, o Options) *Generator {
	g := &Generator{model: m, c: c, o: o, jobs: map[shape]*gomoe.Job{}, args: map[shape]*arguments{}, kept: map[shape][]nn.Cache{},
		forms: map[string]nn.Form{},
		wake:  make(chan struct{}, 1), done: make(chan struct{})}
	g.asked, g.stop = context.WithCancelCause(context.Background())
	g.open, g.close = context.WithCancelCause(context.Background())
	return g
}

// place puts the weights and empty caches on the ranks, if these, and the steps, take no more memory than there is.
func (g *Generator) place(ctx context.Context, available func() memory.Limit) error {
	job, err := g.job(ctx, shape{1, 1, false})
	if err != nil {
		return err
	}
	if err := models.Surplus(g.c, g.o.Adapters.Base(g.params)); err != nil {
		return err
	}
	weights := map[string]*models.Weight{}
	for _, p := range g.params {
		w, err := g.o.Adapters.Find(g.c, p)
		if err != nil {
			return err
		}
		weights[p.Name], g.forms[p.Name] = w, w.Form()
	}
	if err := g.fits(weights, available()); err != nil {
		return err
	}
	for _, at := range g.shapes() { // the largest, so that Memory knows them
		if _, err := g.job(ctx, at); err != nil {
			return err
		}
	}
	if err := g.fits(weights, available()); err != nil { // with what their steps take
		return err
	}
	if g.in, err = models.Lend(job.Session, g.c, weights); err != nil {
		return err
	}
	for _, a := range g.in {
		g.mapped += a.Lent() / int64(len(job.Local()))
	}
	for range g.o.Sequences {
		s := &slot{caches: map[string]*runtime.Array{}}
		for _, k := range g.kept[shape{1, 1, false}] {
			if s.caches[k.Name], err = job.PutParts(k.In.Name, func(p runtime.Part) error { clear(p.Bytes()); return nil }); err != nil {
				return err
			}
		}
		g.slots = append(g.slots, s)
	}
	return nil
}

// Memory is what a rank holds, in bytes, as planned.
type Memory struct {
	Weights, Caches int64 // the caches of all sequences
	Mapped          int64 // of the weights, what lies in the model's files and takes no memory beside them
	Step            int64 // what the largest step takes beside them
}

// Memory returns what a rank holds.
func (g *Generator) Memory() Memory {
	m := Memory{Mapped: g.mapped}
	for at, j := range g.jobs {
		mem := j.Plan().Report(1).Mem
		m.Step = max(m.Step, mem.Total-mem.Inputs)
		if at == (shape{1, 1, false}) {
			m.Caches = g.cacheBytes(func(p lowering.Port) int64 { return p.Spec.Local(j.Plan().Mesh, p.Type).Bytes() })
			m.Weights = mem.Inputs - m.Caches
		}
	}
	m.Caches *= int64(g.o.Sequences)
	return m
}

// cacheBytes adds up the sizes of a sequence's caches.
func (g *Generator) cacheBytes(size func(lowering.Port) int64) (sum int64) {
	for _, in := range g.jobs[shape{1, 1, false}].Plan().In {
		if slices.ContainsFunc(g.kept[shape{1, 1, false}], func(k nn.Cache) bool { return k.In.Name == in.Name }) {
			sum += size(in)
		}
	}
	return sum
}

// steps adds up what steps of every shape take beside weights and caches, on all ranks of this process.
func (g *Generator) steps() (sum int64) {
	for _, j := range g.jobs {
		m, ranks := j.Plan().Report(1).Mem, len(j.Local())
		sum += m.OfRanks(ranks) - m.Inputs*int64(ranks)
	}
	return sum
}

// fits returns an error if the weights and caches of this process's ranks, and the steps of the shapes that there are jobs
// for, each of which keeps memory of its own, take more memory than there is. What lies in the files counts once, however
// many of the ranks read it.
func (g *Generator) fits(weights map[string]*models.Weight, can memory.Limit) error {
	m, job := g.Memory(), g.jobs[shape{1, 1, false}]
	// Caches that tp splits are counted whole: one process may have all ranks.
	caches := float64(g.cacheBytes(func(p lowering.Port) int64 { return p.Type.Bytes() })) * float64(g.o.Sequences)
	need := float64(m.Caches) * float64(len(job.Local()))
	for name, w := range weights {
		l := w.Loan(g.c)
		lent, own, err := job.Takes(name, l)
		if l.Back(); err != nil {
			return err
		}
		need += float64(lent + own)
	}
	need = max(need, caches) + float64(g.steps())
	if need <= float64(can.Bytes) {
		return nil
	}
	what := fmt.Sprintf("caches with room for %d positions", g.o.Room)
	if g.o.Sequences > 1 {
		what = fmt.Sprintf("caches of %d sequences with room for %d positions each", g.o.Sequences, g.o.Room)
	}
	return fmt.Errorf("generate: weights, steps and %s take %s in this process, of which the caches of all ranks are %s, and %s can be had (%s); make less room, or spread the model over more processes",
		what, memory.Format(need), memory.Format(caches), memory.Format(float64(can.Bytes)), can.By)
}

// Room returns how many positions the caches of a sequence have.
func (g *Generator) Room() int { return g.o.Room }

// Sequences returns how many sequences are generated at once.
func (g *Generator) Sequences() int { return g.o.Sequences }
