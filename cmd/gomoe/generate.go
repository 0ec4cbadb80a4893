package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/jaccl/job/environ"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/tokenizer"
)

func (t *tool) generateCommand() *ffcli.Command {
	fs := t.flags("generate")
	g := writing{opening: opening{tool: t}}
	fs.StringVar(&g.prompt, "prompt", "", "`text` to continue")
	fs.StringVar(&g.file, "file", "", "`file` with the text to continue, - for standard input")
	fs.IntVar(&g.n, "n", 100, "maximum number of tokens to generate; the default is lowered if it exceeds the context")
	g.choosing.flags(fs)
	fs.IntVar(&g.o.Room, "room", 0, "`positions` of the caches; as many as the prompt and -n need if 0")
	fs.BoolVar(&g.slide, "slide", false, "when the context is full, drop the older half of the text and continue, instead of refusing to start")
	fs.IntVar(&g.keep, "keep", 0, "first `tokens` of the prompt that -slide never drops")
	g.opening.flags(fs)
	fs.StringVar(&g.compare, "compare", "", "`numbers` of ranks with commas between: write with the experts on each of them, greedily and at random, and compare every token; under a launcher they must divide the number of processes")
	fs.BoolVar(&g.stats, "stats", false, "print times and speeds to standard error, and how much room there is, as on a terminal always")
	return &ffcli.Command{
		Name: "generate", ShortUsage: "gomoe generate MODEL -prompt TEXT [-n 100] [-mesh ep=4]", FlagSet: fs,
		ShortHelp: "Continue a text with a model.",
		LongHelp: "MODEL is a folder with safetensors files, config.json and tokenizer.json, or a GGUF file. Under gomoe launch, mpirun and\n" +
			"others all ranks take part, and the first one writes.",
		Exec: func(ctx context.Context, args []string) error {
			if err := g.operand(fs, args); err != nil {
				return err
			}
			fs.Visit(func(f *flag.Flag) { g.asked = g.asked || f.Name == "n" })
			fs.VisitAll(func(f *flag.Flag) {
				switch f.Name {
				case "transport", "kernels", "device", "stats", "file", "copies":
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

// writing holds the flags and the prompt of gomoe generate.
type writing struct {
	opening
	choosing
	prompt, file, compare string
	n, keep               int
	asked                 bool // n was given; otherwise a default number of tokens
	slide, stats          bool
	same                  [][2]string // flags that must be equal in all processes
	ids                   []int32     // of the prompt
	quiet                 bool        // nothing is written
}

func (g *writing) run(ctx context.Context) (err error) {
	if err := g.check(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.open(ctx); err != nil {
		return err
	}
	if err := g.encode(ctx); err != nil {
		return err
	}
	facts := map[string]string{"the prompt": fmt.Sprint(g.ids)}
	for _, f := range g.same {
		facts[f[0]] = f[1]
	}
	if err := g.w.Same(ctx, facts); err != nil {
		return err
	}
	if g.compare != "" {
		return g.compareRanks(ctx)
	}
	_, err = g.write(ctx, g.o, g.s)
	return err
}

// check returns an error for flags that are invalid for every model.
func (g *writing) check() error {
	if err := g.choosing.check(); err != nil {
		return err
	}
	switch {
	case g.n < 1:
		return usagef("-n %d: want at least 1", g.n)
	case g.keep < 0 || g.keep > 0 && !g.slide:
		return usagef("-keep %d: want at least 0, and -slide beside it", g.keep)
	case g.o.Room < 0:
		return usagef("-room %d: want at least 1, or 0 for what the prompt and -n need", g.o.Room)
	case g.compare != "" && g.mesh != "":
		return usagef("-compare makes its own meshes; leave out -mesh")
	case g.compare != "" && g.o.States != "":
		return usagef("-compare computes the prompt on every mesh; leave out -state")
	}
	job, err := environ.Detect(os.Getenv)
	if err != nil {
		return err
	}
	g.several = g.compare != ""
	if g.file == "-" && job.Size > 1 {
		return usagef("-file -: processes of a launcher have no standard input; give the text with -prompt, or in a file")
	}
	return nil
}

// encode encodes the prompt and sets the context length.
func (g *writing) encode(ctx context.Context) (err error) {
	text := g.prompt
	switch {
	case g.file != "" && g.prompt != "":
		return usagef("-prompt and -file, want one of them")
	case g.file == "-":
		if text, err = readPrompt(ctx, "-", g.stdin); err != nil {
			return fmt.Errorf("-file: %w", err)
		}
	case g.file != "":
		if text, err = readPrompt(ctx, g.file, nil); err != nil {
			return fmt.Errorf("-file: %w", err)
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
	most := g.model.Context
	if g.o.Room > 0 {
		most = min(most, g.o.Room)
	}
	if rest := most - len(g.ids) + 1; !g.asked && !g.slide && rest > 0 {
		g.n = min(g.n, rest)
	}
	need := len(g.ids) - 1 + min(g.n, math.MaxInt-len(g.ids))
	switch {
	case g.o.Room > g.model.Context:
		return usagef("-room %d: the model takes %d positions", g.o.Room, g.model.Context)
	case g.slide && g.o.Room == 0:
		g.o.Room = min(max(need, g.keep+2), g.model.Context)
	case g.o.Room > 0 && need > g.o.Room && !g.slide:
		return usagef("-room %d: a prompt of %d tokens and -n %d need %d positions; raise -room or give -slide", g.o.Room, len(g.ids), g.n, need)
	case g.o.Room == 0:
		g.o.Room = need
	}
	if g.slide && g.o.Room < 2 {
		return usagef("-room %d: want room for at least 2 positions with -slide", g.o.Room)
	}
	if g.slide && g.keep > g.o.Room-2 {
		return usagef("-keep %d: want at most %d, as there is room for %d positions", g.keep, g.o.Room-2, g.o.Room)
	}
	if len(g.ids) > g.model.Context && !g.slide {
		return usagef("a prompt of %d tokens, and the model takes %d positions: shorten it, or give -slide", len(g.ids), g.model.Context)
	}
	if need > g.model.Context && !g.slide {
		return usagef("a prompt of %d tokens and -n %d need room for %d positions, and the model takes %d: give -n %d at most, or -slide", len(g.ids), g.n, need, g.model.Context, max(0, g.model.Context-len(g.ids)+1))
	}
	return nil
}

// maxPrompt is the largest prompt in bytes.
const maxPrompt = 64 << 20

// readPrompt returns the text of a file, or of stdin if path is -. It stops reading when ctx ends.
func readPrompt(ctx context.Context, path string, stdin io.Reader) (string, error) {
	b, err := readAny(ctx, path, stdin, maxPrompt)
	return strings.TrimPrefix(string(b), "\ufeff"), err // byte order mark, written by some editors
}

// written is a generated text.
type written struct {
	ids    []int32
	logits [][]float32 // logits before sampling each token, for -compare
}

// write generates continuations on the ranks of o, one per sampling setting. Only the first one is printed. A following process returns
// no texts.
func (g *writing) write(ctx context.Context, o generate.Options, ways ...generate.Sampling) (texts []written, err error) {
	o.Tokenizer = g.tok
	if g.stats && !g.quiet {
		o.Trace = runtime.NewTotals()
	}
	gen, err := generate.Open(ctx, g.model, g.c, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gen.Close()) }()
	if g.follows {
		if err := gen.Follow(context.WithoutCancel(ctx), ctx); err != nil { // the first process ends the loop
			return nil, err
		}
		return nil, ctx.Err()
	}
	if !g.quiet && (g.stats || isTerminal(g.stderr)) {
		fmt.Fprintln(g.stderr, roomText(gen))
	}
	ctx = gen.Until(ctx)
	for i, s := range ways {
		text, err := g.continuation(ctx, gen, o.Trace, s, i > 0)
		if stop := (*generate.StopError)(nil); err != nil && errors.As(context.Cause(ctx), &stop) {
			err = stop
		}
		if err != nil {
			return texts, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// continuation generates one continuation.
func (g *writing) continuation(ctx context.Context, gen *generate.Generator, trace *runtime.Trace, s generate.Sampling, quiet bool) (text written, err error) {
	quiet = quiet || g.quiet
	out := newOutput(g.stdout)
	if quiet {
		out = newOutput(io.Discard)
	}
	before := gen.Stats()
	r, err := gen.Generate(ctx, generate.Request{Prompt: g.ids, N: g.n, Sampling: s, Ends: g.ends, Stops: g.stop, Slide: g.slide, Keep: g.keep, Logits: g.homeSums()}, func(x generate.Token) bool {
		text.ids, text.logits = append(text.ids, x.ID), append(text.logits, x.Logits)
		return out.print(x.Text)
	})
	if err == nil {
		out.print(r.Rest)
	}
	if err == nil || r.Tokens > 0 {
		out.print("\n")
	}
	if err != nil {
		return text, err
	}
	if out.err != nil {
		return text, out.err
	}
	if g.stats && !quiet {
		fmt.Fprintf(g.stderr, "prompt: %d tokens in %.3f s, %.1f tokens/s", r.Prompt-r.Reused, r.First.Seconds(), float64(r.Prompt-r.Reused)/r.First.Seconds())
		if r.Reused > 0 {
			fmt.Fprintf(g.stderr, ", and %d from -state", r.Reused)
		}
		fmt.Fprintln(g.stderr)
		if r.Tokens > 1 {
			fmt.Fprintf(g.stderr, "written: %d tokens, %.3f ms each, %.1f tokens/s\n", r.Tokens, r.Others.Seconds()*1e3/float64(r.Tokens-1), float64(r.Tokens-1)/r.Others.Seconds())
		}
		fmt.Fprint(g.stderr, guessText(before, gen.Stats()))
		fmt.Fprintln(g.stderr, splitText(trace.Totals(0)))
	}
	return text, nil
}

// splitText describes the time split of rank 0's steps.
func splitText(t runtime.Totals) string {
	part := func(d time.Duration) string {
		return fmt.Sprintf("%.3f s (%.0f%%)", d.Seconds(), 100*d.Seconds()/max(t.Steps.Seconds(), 1e-9))
	}
	text := fmt.Sprintf("rank 0: steps %.3f s, of which compute %s, exchange %s, waiting %s", t.Steps.Seconds(), part(t.Kernels), part(t.Collectives), part(t.Waits))
	if t.Beside > 0 {
		text += fmt.Sprintf("; exchange overlapped with compute %.3f s", t.Beside.Seconds())
	}
	return text
}
