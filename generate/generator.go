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
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/tokenizer"
)

// Options configures a Generator. The zero Options uses one rank, one sequence at a time, and caches of the model's
// computation type.
type Options struct {
	// Config sets the job, mesh, device and deadline. The Generator sets placements and donations.
	gomoe.Config
	Room      int         // capacity of a sequence's caches in positions; 0 means the model's context length
	Cache     graph.DType // element type of the caches; zero means the model's computation type
	Sequences int         // number of sequences generated concurrently; 0 means 1
	// Speculate is the source of guesses for a text that is generated alone.
	Speculate Speculation
	// States is a folder that keeps the states of texts from one Generator to the next: Close writes a file there, and
	// Open reads it, if it is there. It is an error if the file is of another model or mesh. "" keeps none. A job of
	// several processes has no such folder.
	States string
	// Snapshots is the number of positions from one snapshot of a sequence's carried states to the next, for models
	// that have such states; 0 means an eighth of Room, and at least 512. A text that shares a prefix with an earlier
	// one continues from the last snapshot in it.
	Snapshots int
	Queue     int // maximum number of waiting requests; 0 means unlimited
	// Exchange and Wire configure the return of experts' outputs to their tokens; see nn.Options.
	Exchange ep.Exchange
	Wire     graph.DType
	// Adapters are applied to the model; nil means none.
	Adapters *models.Adapters
	// Copies returns replicas of experts, such as nn.BalanceCopies returns; nil means none. Replication does not
	// change a bit of the results.
	Copies func(layer string, experts int) (ep.Copies, error)
	// Tokenizer decodes tokens to text. If nil, Token.Text is empty.
	Tokenizer *tokenizer.Tokenizer
}

// Generator holds a model's weights on the ranks of a mesh, and caches for several sequences, which it generates in
// one batch, one token each per step. In a job of several processes, all call Open with the same Options, the first
// one calls Generate, and all others call Follow. The methods of a Generator are safe for concurrent use.
type Generator struct {
	model   *models.Model
	c       *checkpoint.Checkpoint
	o       Options
	params  []nn.Param
	jobs    map[shape]*gomoe.Job
	args    map[shape]*arguments
	states  map[shape][]nn.State // of each shape's program
	in      map[string]*runtime.Array
	forms   map[string]nn.Form // of the parameters
	made    string             // the identity of the model, for States
	release func() error       // of the folder States
	mapped  int64              // bytes of a rank's weights that alias files
	slots   []*slot
	peers   *peers          // nil in a single process
	asked   context.Context // ends when another process is asked to stop
	stop    context.CancelCauseFunc
	open    context.Context // ends with Close
	close   context.CancelCauseFunc

	mu      sync.Mutex
	queue   []*sequence
	running []*sequence // sequences with a slot, oldest first
	stats   Stats
	closing bool
	failed  error         // error of a step; the caches are lost with it
	wake    chan struct{} // holds an element if the loop should check its state
	done    chan struct{} // closed when the loop has ended
}

// Stats holds the current state of a Generator, and totals since it was opened.
type Stats struct {
	Running, Waiting          int // requests
	Sequences, Queue          int // as in Options
	Requests                  int // number of requests admitted so far
	Prompt, Reused, Generated int // tokens of prompts computed, prompt tokens found in caches, and tokens generated
	Guessed, Accepted         int // guesses of Options.Speculate, and those that were generated
	Steps                     int
	Busy                      time.Duration // total duration of steps
}

// blocks returns the possible numbers of tokens in a step of one sequence, largest first. A prompt is split into
// them. A block of 512 gives each expert enough rows to amortise unpacking its weights: blocks of 128 take 1.25
// times as long on a core with AVX-512, and 1.4 times on one with AMX.
func blocks() []int { return []int{512, 128, 32, 8, 1} }

// besides is the maximum number of tokens in a step while other sequences wait.
const besides = 128

// mostScored is the maximum number of tokens in a step returning the logits of all its tokens. With a vocabulary of
// 150,000 tokens they take 20 MB.
const mostScored = 32

// block returns the number of tokens in the next step of a sequence with the given number of tokens left to
// compute.
func (g *Generator) block(lacks int) int {
	i := slices.IndexFunc(blocks(), func(b int) bool { return b <= lacks })
	return blocks()[i]
}

// usual returns o with defaults in place of zeros, or an error if it is invalid.
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
	case o.Speculate != NoSpeculation && o.Speculate != NGram:
		return o, fmt.Errorf("generate: speculate %s, want nothing or %q", quoted.Text(string(o.Speculate)), string(NGram))
	case o.Snapshots < 0:
		return o, fmt.Errorf("generate: snapshots every %d positions, want at least 1, or 0 for the default", o.Snapshots)
	case o.Queue < 0:
		return o, fmt.Errorf("generate: a queue of %d requests, want at least 1, or 0 for any number", o.Queue)
	}
	if o.Snapshots == 0 {
		o.Snapshots = max(o.Room/8, blocks()[0])
	}
	o.Keep = gomoe.Off // packed copies of the weights would take as much memory as the weights
	return o, nil
}

// Open opens a model and loads its weights on the ranks: each rank reads its own shards from the files. The caller
// must call Close. The checkpoint may be closed after Open has returned. When ctx ends, compilation stops in all
// processes of the job, with an error naming the process whose ctx has ended. An open Generator does not depend on
// ctx.
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
	if o.States != "" {
		if g.peers != nil {
			return g, errors.New("generate: states are kept by one process, and this job has several")
		}
		if g.made, err = g.identity(); err != nil {
			return g, err
		}
		if err := g.restore(ctx); err != nil {
			g.made = "" // Close leaves the file as it is
			return g, err
		}
	}
	if g.peers == nil || g.peers.first {
		go g.loop(context.Background())
	} else {
		close(g.done)
	}
	return g, nil
}

// newGenerator returns a generator without programs, weights and caches.
func newGenerator(m *models.Model, c *checkpoint.Checkpoint, o Options) *Generator {
	g := &Generator{model: m, c: c, o: o, jobs: map[shape]*gomoe.Job{}, args: map[shape]*arguments{}, states: map[shape][]nn.State{},
		forms: map[string]nn.Form{},
		wake:  make(chan struct{}, 1), done: make(chan struct{})}
	g.asked, g.stop = context.WithCancelCause(context.Background())
	g.open, g.close = context.WithCancelCause(context.Background())
	return g
}

// place loads the weights and allocates empty caches on the ranks, provided that they and the steps fit into
// memory.
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
	for _, at := range g.shapes() { // the largest ones, so that Memory includes them
		if _, err := g.job(ctx, at); err != nil {
			return err
		}
	}
	if err := g.fits(weights, available()); err != nil { // including their steps
		return err
	}
	if g.in, err = models.Lend(job.Session, g.c, weights); err != nil {
		return err
	}
	for _, a := range g.in {
		g.mapped += a.Lent() / int64(len(job.Local()))
	}
	for range g.o.Sequences {
		s := &slot{snapshots: make([]snapshot, g.snapshots())}
		if s.states, err = g.emptyStates(func(nn.State) bool { return true }); err != nil {
			return err
		}
		g.slots = append(g.slots, s)
	}
	return nil
}

// Memory is the planned memory use of a rank in bytes.
type Memory struct {
	Weights, Caches int64 // Caches covers the states of all sequences, and their snapshots
	Snapshots       int64 // the part of Caches for snapshots
	Mapped          int64 // the part of Weights that aliases the model's files, taking no additional memory
	Step            int64 // additional memory of the largest step
}

// Memory returns the memory use of a rank.
func (g *Generator) Memory() Memory {
	m := Memory{Mapped: g.mapped}
	for at, j := range g.jobs {
		mem := j.Plan().Report(1).Mem
		m.Step = max(m.Step, mem.Total-mem.Inputs)
		if at == (shape{1, 1, false}) {
			all, carried := g.stateBytes(j.Plan(), func(p lowering.Port) int64 { return p.Spec.Local(j.Plan().Mesh, p.Type).Bytes() })
			m.Weights = mem.Inputs - all
			m.addStates(g, all, carried)
		}
	}
	return m
}

// addStates counts the states of all sequences, given the sizes of one sequence's states and of the carried ones.
func (m *Memory) addStates(g *Generator, all, carried int64) {
	n := int64(g.o.Sequences)
	m.Snapshots = n * carried * int64(g.snapshots())
	m.Caches = n*all + m.Snapshots
}

// stateBytes adds up the sizes of a sequence's states, and of those that are carried, in a plan of one sequence.
func (g *Generator) stateBytes(p *lowering.Plan, size func(lowering.Port) int64) (all, carried int64) {
	for _, in := range p.In {
		for _, x := range g.states[shape{1, 1, false}] {
			if x.In.Name != in.Name {
				continue
			}
			if all += size(in); x.Kind == nn.Carried {
				carried += size(in)
			}
		}
	}
	return all, carried
}

// steps returns the memory of steps of every shape, in addition to weights and caches, on all ranks of this
// process.
func (g *Generator) steps() (sum int64) {
	for _, j := range g.jobs {
		m, ranks := j.Plan().Report(1).Mem, len(j.Local())
		sum += m.OfRanks(ranks) - m.Inputs*int64(ranks)
	}
	return sum
}

// fits returns an error if there is too little memory for the weights and caches of this process's ranks, and for
// the steps of all compiled shapes, each of which has its own memory. Memory aliasing files counts once, regardless
// of how many ranks read it.
func (g *Generator) fits(weights map[string]*models.Weight, can memory.Limit) error {
	m, job := g.Memory(), g.jobs[shape{1, 1, false}]
	// Caches split by tp are counted in full, because one process may have all ranks.
	var whole Memory
	all, carried := g.stateBytes(job.Plan(), func(p lowering.Port) int64 { return p.Type.Bytes() })
	whole.addStates(g, all, carried)
	caches := float64(whole.Caches)
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
		what, memory.Format(need), memory.Format(caches), memory.Format(can.Bytes), can.By)
}

// Room returns the capacity of a sequence's caches in positions.
func (g *Generator) Room() int { return g.o.Room }

// Sequences returns the number of sequences generated concurrently.
func (g *Generator) Sequences() int { return g.o.Sequences }
