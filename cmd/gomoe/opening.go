package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train/lm"
	"github.com/gomoe/gomoe/world"
)

// opening opens a model for a command, and holds the flags for placing it.
type opening struct {
	*tool
	path, mesh, device string
	adapter            string
	order              string // order of the ranks in the mesh
	transport          *string
	deadline           *time.Duration
	o                  generate.Options
	copies             copying

	w     world.World
	c     *checkpoint.Checkpoint
	model *models.Model
	tok   *tokenizer.Tokenizer
	ends  map[int32]bool
	// follows is set if the first process of the job does the input and output, and this process only
	// computes.
	follows bool
	// several is set if the command opens jobs on several meshes.
	several bool
	end     func() error // releases the device
}

// flags adds the flags for placing the model.
func (m *opening) flags(fs *flag.FlagSet) {
	fs.Func("cache", "element `type` of the caches: f32, bf16, f16 or q8_0; that of the calculation if not given",
		quoted.OneOf[graph.DType]{To: &m.o.Cache, Of: []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0}}.Set)
	fs.StringVar(&m.o.States, "state", "", "`folder` that keeps the states of texts at the end, so that the next run continues from them")
	fs.Func("speculate", "`source` of guesses for the next tokens, with which the text is the same: ngram, the tokens that followed the last three before, or off; off if not given",
		quoted.OneOf[generate.Speculation]{To: &m.o.Speculate, Of: []generate.Speculation{generate.NoSpeculation, generate.NGram}}.Set)
	adapterFlag(fs, &m.adapter)
	returnFlags(fs, &m.o.Exchange, &m.o.Wire)
	m.copies.flags(fs)
	fs.StringVar(&m.mesh, "mesh", "", "`axes` of ranks: ep splits the experts, tp heads and the experts' columns; empty is one rank")
	orderFlag(fs, &m.order)
	m.transport, m.deadline = world.TransportFlag(fs), world.DeadlineFlag(fs)
	deviceFlag(fs, &m.device)
	kernelsFlag(fs)
}

// returnFlags adds the flags for the return path of experts' outputs.
func returnFlags(fs *flag.FlagSet, exchange *ep.Exchange, wire *graph.DType) {
	fs.Func("exchange", "the `form` in which experts' outputs return to their tokens: rows, with the same bits as on one rank, or sum, which sends less; rows if not given", quoted.OneOf[ep.Exchange]{To: exchange, Of: []ep.Exchange{ep.Rows, ep.Sum}}.Set)
	fs.Func("wire", "element `type` of returned sums, with -exchange sum: f32, bf16 or f16; f32 if not given", lm.SumTypes(wire).Set)
}

// checkReturn returns an error if a flag of returnFlags has no effect.
func checkReturn(exchange ep.Exchange, wire graph.DType) error {
	if wire != graph.NoDType && exchange != ep.Sum {
		return usagef("-wire %s is the type of sums, want -exchange sum, too", wire)
	}
	return nil
}

// adapterFlag adds the flag for a model's adapters.
func adapterFlag(fs *flag.FlagSet, to *string) {
	fs.StringVar(to, "adapter", "", "`folder` with a LoRA adapter that the model is used with, as gomoe finetune, PEFT and mlx-lm write them")
}

// operand reads the model's path from the operands.
func (m *opening) operand(fs *flag.FlagSet, args []string) error {
	var err error
	m.path, err = onePath(fs, args, "the folder of a model, or a GGUF file")
	return err
}

// modelAxes returns an error for a mesh axis over which no model is split. The ranks along such an
// axis would all compute the same.
func modelAxes(mesh sharding.Mesh) error {
	for _, a := range mesh.Axes {
		if a.Name != "ep" && a.Name != "tp" {
			return usagef("-mesh %s: axis %s, want ep, which splits the experts, or tp, which splits heads; along others all ranks would compute the same", mesh, a.Name)
		}
	}
	return nil
}

// open sets up the job, and opens the model and its tokenizer. The caller must call close, even after
// an error.
func (m *opening) open(ctx context.Context) error {
	mesh, err := meshOf(m.mesh, m.order)
	if err != nil {
		return err
	}
	if err := checkReturn(m.o.Exchange, m.o.Wire); err != nil {
		return err
	}
	if m.o.Copies, err = m.copies.parse(mesh); err != nil {
		return err
	}
	if err := modelAxes(mesh); err != nil {
		return err
	}
	setup := world.Config{Mesh: &mesh, Transport: *m.transport, Deadline: *m.deadline}
	if m.several {
		setup.Mesh = nil
	}
	if err := m.w.Setup(ctx, setup); err != nil {
		return splits(err, m.mesh)
	}
	info, err := m.w.Info()
	if err != nil {
		return err
	}
	if err := m.w.Same(ctx, map[string]string{"-copies": m.copies.fact()}); err != nil {
		return err
	}
	m.follows = !info.First()
	m.o.World, m.o.Mesh, m.o.Deadline = &m.w, mesh, *m.deadline
	if m.end, err = openDevice(ctx, m.device, &m.o.Config); err != nil {
		return err
	}
	if m.c, err = checkpoint.Open(m.path); err != nil {
		return err
	}
	if m.model, err = models.Open(m.c); err != nil {
		return err
	}
	if n := mesh.Size("ep"); n > m.model.Experts {
		return usagef("-mesh %s: the model has %d experts, want at most as many ranks along ep", mesh, m.model.Experts)
	}
	if n := mesh.Size("tp"); n > 1 && m.model.Heads%n != 0 {
		return usagef("-mesh %s: the model's %d heads of keys and values do not divide evenly over %d ranks along tp", mesh, m.model.Heads, n)
	}
	if m.adapter != "" {
		if m.o.Adapters, err = models.OpenAdapters(m.adapter, m.model, m.c); err != nil {
			return err
		}
	}
	if err := m.copies.check(m.model); err != nil {
		return err
	}
	if m.tok, err = generate.Tokenizer(m.c); err != nil {
		return err
	}
	m.o.Tokenizer = m.tok
	m.ends, err = generate.Ends(m.c, m.tok)
	return err
}

// splits adds to err the mesh that would fit a job started without -mesh.
func splits(err error, mesh string) error {
	var misfit *world.MisfitError
	if job, wrong := environ.Detect(os.Getenv); wrong == nil && errors.As(err, &misfit) && mesh == "" {
		return fmt.Errorf("%w: -mesh ep=%d splits the experts", err, job.Size)
	}
	return err
}

// usualRoom is the default context length in positions if the model takes more.
const usualRoom = 4096

// setRoom checks -room, or sets its default.
func (m *opening) setRoom() error {
	switch {
	case m.o.Room < 0:
		return usagef("-room %d: want at least 1, or 0 for as many as the model takes", m.o.Room)
	case m.o.Room > m.model.Context:
		return usagef("-room %d: the model takes %d positions", m.o.Room, m.model.Context)
	case m.o.Room == 0:
		m.o.Room = min(m.model.Context, usualRoom)
	}
	return nil
}

// close releases everything that open has opened.
func (m *opening) close() error {
	var errs []error
	if m.c != nil {
		errs = append(errs, m.c.Close())
	}
	if m.end != nil {
		errs = append(errs, m.end())
	}
	return errors.Join(append(errs, m.w.Close())...)
}

// guessText describes the guesses between two states of a generator, as a line; "" if there were none.
func guessText(before, after generate.Stats) string {
	guessed, accepted := after.Guessed-before.Guessed, after.Accepted-before.Accepted
	if guessed == 0 {
		return ""
	}
	return fmt.Sprintf("guesses: %d of %d were right, %.1f tokens a step\n", accepted, guessed, float64(after.Generated-before.Generated)/float64(after.Steps-before.Steps))
}

// roomText describes a generator's context length and the memory of a rank.
func roomText(g *generate.Generator) string {
	m, of, mapped := g.Memory(), "", ""
	if n := g.Sequences(); n > 1 {
		of = fmt.Sprintf(" for each of %d sequences", n)
	}
	if m.Mapped > 0 {
		mapped = fmt.Sprintf(" (%s of them in the model's files)", memory.Format(m.Mapped))
	}
	caches := memory.Format(m.Caches)
	if m.Snapshots > 0 {
		caches += fmt.Sprintf(" (%s of them for snapshots)", memory.Format(m.Snapshots))
	}
	return fmt.Sprintf("room for %d positions%s; a rank takes %s: weights %s%s, caches %s, the largest step %s", g.Room(), of,
		memory.Format(m.Weights+m.Caches+m.Step), memory.Format(m.Weights), mapped, caches, memory.Format(m.Step))
}
