package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) generateCommand() *ffcli.Command {
	fs := t.flags("generate")
	g := writing{tool: t}
	fs.StringVar(&g.prompt, "prompt", "", "`text` to continue")
	fs.StringVar(&g.file, "file", "", "`file` with the text to continue, - for standard input")
	fs.IntVar(&g.n, "n", 100, "tokens to write at most")
	fs.Float64Var(&g.s.Temperature, "temperature", 0, "divides the logits; 0 takes the most likely token")
	fs.IntVar(&g.s.TopK, "top-k", 0, "choose among so many tokens, the most likely; 0 is all")
	fs.Float64Var(&g.s.TopP, "top-p", 0, "choose among the most likely tokens that have this `probability` together; 0 is all")
	fs.Float64Var(&g.s.MinP, "min-p", 0, "choose among tokens with this `part` of the most likely one's probability; 0 is all")
	fs.Float64Var(&g.s.Repetition, "repetition", 0, "`factor` that makes tokens less likely that are there already, such as 1.1; 0 is none")
	fs.Float64Var(&g.s.Presence, "presence", 0, "`amount` that is taken from the logits of tokens that are there already")
	fs.Uint64Var(&g.s.Seed, "seed", 1, "of the choice among tokens; it gives the same text on every mesh without tp")
	fs.Func("stop", "`text` at which to stop, which is not written; may be given several times", func(s string) error {
		if s == "" {
			return errors.New("want at least one character")
		}
		g.stop = append(g.stop, s)
		return nil
	})
	fs.IntVar(&g.o.Room, "room", 0, "`positions` of the caches; as many as the prompt and -n need if 0")
	fs.Func("cache", "element `type` of the caches: f32, bf16, f16 or q8_0; that of the calculation if not given", func(s string) error {
		for _, d := range []graph.DType{graph.F32, graph.BF16, graph.F16, graph.Q8_0} {
			if d.String() == s {
				g.o.Cache = d
				return nil
			}
		}
		return errors.New("want f32, bf16, f16 or q8_0")
	})
	fs.StringVar(&g.mesh, "mesh", "", "`axes` of ranks: ep splits the experts, tp heads and the experts' columns; empty is one rank")
	fs.StringVar(&g.compare, "compare", "", "`numbers` of ranks with commas between: write with the experts on each of them, and compare every token")
	fs.BoolVar(&g.stats, "stats", false, "print times and speeds to standard error")
	g.transport, g.deadline = world.TransportFlag(fs), world.DeadlineFlag(fs)
	deviceFlag(fs, &g.device)
	kernelsFlag(fs)
	return &ffcli.Command{
		Name: "generate", ShortUsage: "gomoe generate MODEL -prompt TEXT [-n 100] [-mesh ep=4]", FlagSet: fs,
		ShortHelp: "Continue a text with a model.",
		LongHelp: "MODEL is a folder with safetensors files, config.json and tokenizer.json, or a GGUF file. Under gomoe launch, mpirun and\n" +
			"others all ranks take part, and the first one writes.",
		Exec: func(ctx context.Context, args []string) error {
			paths, err := operands(fs, args)
			if err != nil {
				return err
			}
			if len(paths) != 1 {
				return usagef("%d paths %q, want one: the folder of a model, or a GGUF file", len(paths), paths)
			}
			g.path = paths[0]
			fs.VisitAll(func(f *flag.Flag) {
				switch f.Name {
				case "transport", "kernels", "device", "stats", "file":
				case "stop", "cache": // functions, which show no value
				default:
					g.same = append(g.same, [2]string{"-" + f.Name, f.Value.String()})
				}
			})
			g.same = append(g.same, [2]string{"-stop", fmt.Sprintf("%q", g.stop)}, [2]string{"-cache", g.o.Cache.String()})
			return g.run(ctx)
		},
	}
}

// writing is one use of gomoe generate.
type writing struct {
	*tool
	path, prompt, file, mesh, compare, device string
	n                                         int
	s                                         generate.Sampling
	o                                         generate.Options
	stop                                      []string
	stats                                     bool
	transport                                 *string
	deadline                                  *time.Duration
	same                                      [][2]string // flags that are to be the same in all processes

	model *models.Model
	c     *checkpoint.Checkpoint
	tok   *tokenizer.Tokenizer
	ids   []int32 // of the prompt
	ends  map[int32]bool
	quiet bool // nothing is written
	// follows says that the first process of the job writes, and this one computes with it.
	follows bool
}

func (g *writing) run(ctx context.Context) (err error) {
	mesh, err := g.check()
	if err != nil {
		return err
	}
	var w world.World
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Setup(ctx, world.Config{Mesh: &mesh, Transport: *g.transport, Deadline: *g.deadline}); err != nil {
		return err
	}
	info, err := w.Info()
	if err != nil {
		return err
	}
	g.follows = !info.First()
	g.o.World, g.o.Mesh, g.o.Deadline = &w, mesh, *g.deadline
	end, err := openDevice(ctx, g.device, &g.o.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := g.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.c.Close()) }()
	facts := map[string]string{"the prompt": fmt.Sprint(g.ids)}
	for _, f := range g.same {
		facts[f[0]] = f[1]
	}
	if err := w.Same(ctx, facts); err != nil {
		return err
	}
	if g.compare != "" {
		return g.compareRanks(ctx)
	}
	_, err = g.write(ctx, g.o)
	return err
}

// check returns an error for flags that cannot be right, whatever the model.
func (g *writing) check() (sharding.Mesh, error) {
	mesh, err := sharding.ParseMesh(g.mesh)
	if err != nil {
		return mesh, usagef("-mesh: %w", err)
	}
	for _, a := range mesh.Axes {
		if !slices.Contains([]string{"dp", "ep", "tp"}, a.Name) {
			return mesh, usagef("-mesh %s: axis %s, want ep, which splits the experts, tp, which splits heads, or dp, which copies the model", mesh, a.Name)
		}
	}
	if err := g.s.Check(); err != nil {
		return mesh, &usageError{err}
	}
	switch {
	case g.n < 1:
		return mesh, usagef("-n %d: want at least 1", g.n)
	case g.o.Room < 0:
		return mesh, usagef("-room %d: want at least 1, or 0 for what the prompt and -n need", g.o.Room)
	case g.s.Temperature == 0 && (g.s.TopK > 0 || g.s.TopP > 0 || g.s.MinP > 0):
		return mesh, usagef("-top-k, -top-p and -min-p choose at random, which wants a -temperature above 0, such as 0.7")
	case g.compare != "" && g.mesh != "":
		return mesh, usagef("-compare makes its own meshes, in this process; leave out -mesh")
	}
	job, err := environ.Detect(os.Getenv)
	if err != nil {
		return mesh, err
	}
	if g.compare != "" && job.Size > 1 {
		return mesh, usagef("-compare has all ranks in one process; start it without a launcher")
	}
	if g.file == "-" && job.Size > 1 {
		return mesh, usagef("-file -: processes of a launcher have no standard input; give the text with -prompt, or in a file")
	}
	return mesh, nil
}

// open opens the model and its tokenizer, and encodes the prompt.
func (g *writing) open() (err error) {
	if g.c, err = checkpoint.Open(g.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.c.Close())
		}
	}()
	if g.model, err = models.Open(g.c); err != nil {
		return err
	}
	if g.tok, err = generate.Tokenizer(g.c); err != nil {
		return err
	}
	if n := g.o.Mesh.Size("ep"); n > g.model.Experts {
		return usagef("-mesh %s: the model has %d experts, want at most as many ranks along ep", g.o.Mesh, g.model.Experts)
	}
	text := g.prompt
	switch {
	case g.file != "" && g.prompt != "":
		return usagef("-prompt and -file, want one of them")
	case g.file == "-":
		if text, err = readPrompt(g.stdin); err != nil {
			return fmt.Errorf("-file: %w", err)
		}
	case g.file != "":
		f, err := os.Open(g.file)
		if err != nil {
			return fmt.Errorf("-file: %w", err)
		}
		text, err = readPrompt(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("-file %s: %w", plainText(g.file), err)
		}
	}
	if g.ids, err = g.tok.Encode(text, tokenizer.Options{}); err != nil {
		return err
	}
	if len(g.ids) == 0 {
		if text != "" {
			return usagef("the tokenizer makes no token of the text: want text of its vocabulary")
		}
		return usagef("no text to continue, want -prompt TEXT or -file FILE")
	}
	for _, id := range g.ids {
		if int(id) >= g.model.Vocab {
			return fmt.Errorf("%s: the tokenizer makes token %d of the text, and the model has %d tokens: they are of different models", g.path, id, g.model.Vocab)
		}
	}
	need := len(g.ids) - 1 + min(g.n, math.MaxInt-len(g.ids))
	switch {
	case g.o.Room > g.model.Context:
		return usagef("-room %d: the model was trained for %d positions", g.o.Room, g.model.Context)
	case g.o.Room > 0 && need > g.o.Room:
		return usagef("-room %d: a prompt of %d tokens and -n %d need room for %d positions", g.o.Room, len(g.ids), g.n, need)
	case g.o.Room == 0:
		g.o.Room = need
	}
	if need > g.model.Context {
		return usagef("a prompt of %d tokens and -n %d need room for %d positions, and the model was trained for %d: give -n %d at most", len(g.ids), g.n, need, g.model.Context, max(0, g.model.Context-len(g.ids)+1))
	}
	g.ends, err = g.c.Config.IDs("eos_token_id")
	if err != nil {
		return err
	}
	if eos := g.tok.Special().EOS; eos >= 0 {
		g.ends[eos] = true
	}
	more, err := checkpoint.ReadConfig(filepath.Join(filepath.Dir(g.c.Files[0]), "generation_config.json"))
	if err != nil {
		return err
	}
	ends, err := more.IDs("eos_token_id")
	maps.Copy(g.ends, ends)
	return err
}

// maxPrompt is the longest text that a prompt may be, in bytes.
const maxPrompt = 64 << 20

func readPrompt(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPrompt+1))
	if err == nil && len(b) > maxPrompt {
		err = fmt.Errorf("more than %d bytes, want a text of fewer", maxPrompt)
	}
	return string(b), err
}

// write writes the continuation on the ranks that o says, and returns its tokens.
func (g *writing) write(ctx context.Context, o generate.Options) (ids []int32, err error) {
	o.Tokenizer = g.tok
	gen, err := generate.Open(g.model, g.c, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gen.Close()) }()
	if g.follows {
		return nil, gen.Follow(context.WithoutCancel(ctx)) // the first process says when to end
	}
	if g.stats && !g.quiet {
		fmt.Fprintln(g.stderr, roomText(gen))
	}
	out := newOutput(g.stdout)
	if g.quiet {
		out = newOutput(io.Discard)
	}
	r, err := gen.Generate(ctx, generate.Request{Prompt: g.ids, N: g.n, Sampling: g.s, Ends: g.ends, Stops: g.stop}, func(x generate.Token) bool {
		ids = append(ids, x.ID)
		return out.print(x.Text)
	})
	if err == nil {
		out.print(r.Rest)
	}
	if err == nil || r.Tokens > 0 {
		out.print("\n")
	}
	if err != nil {
		return ids, err
	}
	if out.err != nil {
		return ids, out.err
	}
	if g.stats && !g.quiet {
		fmt.Fprintf(g.stderr, "prompt: %d tokens in %.3f s, %.1f tokens/s\n", r.Prompt, r.First.Seconds(), float64(r.Prompt)/r.First.Seconds())
		if r.Tokens > 1 {
			fmt.Fprintf(g.stderr, "written: %d tokens, %.3f ms each, %.1f tokens/s\n", r.Tokens, r.Others.Seconds()*1e3/float64(r.Tokens-1), float64(r.Tokens-1)/r.Others.Seconds())
		}
	}
	return ids, nil
}

// roomText says how much room a generator has, and what a rank holds.
func roomText(g *generate.Generator) string {
	m, of := g.Memory(), ""
	if n := g.Sequences(); n > 1 {
		of = fmt.Sprintf(" for each of %d sequences", n)
	}
	return fmt.Sprintf("room for %d positions%s; a rank takes %s: weights %s, caches %s, the largest step %s", g.Room(), of,
		memory.Format(float64(m.Weights+m.Caches+m.Step)), memory.Format(float64(m.Weights)), memory.Format(float64(m.Caches)), memory.Format(float64(m.Step)))
}

// compareRanks writes with the experts on several numbers of ranks, and compares the tokens.
func (g *writing) compareRanks(ctx context.Context) error {
	var ranks []int
	for _, text := range strings.Split(g.compare, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return usagef("-compare %q: want numbers of ranks such as 1,2,4", g.compare)
		}
		if n > g.model.Experts {
			return usagef("-compare %s: the model has %d experts, want at most as many ranks", g.compare, g.model.Experts)
		}
		ranks = append(ranks, n)
	}
	var first []int32
	var done []string
	for i, n := range ranks {
		o := g.o
		o.World = nil
		var err error
		if o.Mesh, err = sharding.ParseMesh(fmt.Sprintf("ep=%d", n)); err != nil {
			return err
		}
		one := *g
		one.quiet = i > 0
		ids, err := one.write(ctx, o)
		if err != nil {
			return fmt.Errorf("on %d ranks: %w", n, err)
		}
		if i == 0 {
			first = ids
		}
		for at := range max(len(first), len(ids)) {
			if at >= len(first) || at >= len(ids) || first[at] != ids[at] {
				return fmt.Errorf("token %d on %d ranks is not that of the first: %v and %v", at, n, ids[min(at, len(ids)):], first[min(at, len(first)):])
			}
		}
		done = append(done, strconv.Itoa(n))
	}
	fmt.Fprintf(g.stderr, "%d tokens, the same on %s ranks\n", len(first), strings.Join(done, ", "))
	return nil
}
