package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/evaluate"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/tokenizer"
	"github.com/gomoe/gomoe/train/picture"
	"github.com/gomoe/gomoe/world"
)

func (t *tool) evalCommand() *ffcli.Command {
	fs := t.flags("eval")
	e := evaluating{tool: t}
	fs.StringVar(&e.text, "text", "", "`file` with the text that the model is to predict, - for standard input")
	fs.IntVar(&e.o.Window, "window", 0, "`tokens` of a window; 512, or the model's context if that is shorter, if 0")
	fs.StringVar(&e.mesh, "mesh", "", "`axes` of ranks: ep splits the experts, tp heads and the experts' columns; empty is one rank")
	fs.StringVar(&e.picture, "picture", "", "PNG `file` for the load of the experts of each layer")
	fs.BoolVar(&e.json, "json", false, "print it as JSON")
	adapterFlag(fs, &e.adapter)
	returnFlags(fs, &e.o.Exchange, &e.o.Wire)
	e.copies.flags(fs)
	e.transport, e.deadline = world.TransportFlag(fs), world.DeadlineFlag(fs)
	deviceFlag(fs, &e.device)
	kernelsFlag(fs)
	return &ffcli.Command{
		Name: "eval", ShortUsage: "gomoe eval MODEL -text FILE [-window 512] [-mesh ep=4] [-picture load.png] [-json]", FlagSet: fs,
		ShortHelp: "Measure how well a model predicts a text.",
		LongHelp: "MODEL is that of gomoe generate. The text's tokens are divided into consecutive windows. Each window is a text of its\n" +
			"own, in which every token but the first is predicted from those before it; the last one may be shorter. The loss is the\n" +
			"mean of -log(p) over all predicted tokens, and the perplexity e to it. It is the same number on every mesh without tp,\n" +
			"but for -exchange sum, with which it is close.",
		Exec: func(ctx context.Context, args []string) error {
			path, err := onePath(fs, args, "the folder of a model, or a GGUF file")
			if err != nil {
				return err
			}
			e.path = path
			return e.run(ctx)
		},
	}
}

// evaluating holds the flags of gomoe eval.
type evaluating struct {
	*tool
	path, text, mesh, picture, device string
	adapter                           string
	o                                 evaluate.Options
	copies                            copying
	json                              bool
	transport                         *string
	deadline                          *time.Duration
}

func (e *evaluating) run(ctx context.Context) (err error) {
	switch {
	case e.text == "":
		return usagef("no -text, want the file with the text")
	case e.o.Window < 0 || e.o.Window == 1:
		return usagef("-window %d: want at least 2 tokens, of which one is predicted, or 0", e.o.Window)
	}
	mesh, err := sharding.ParseMesh(e.mesh)
	if err != nil {
		return usagef("-mesh: %w", err)
	}
	if err := modelAxes(mesh); err != nil {
		return err
	}
	if err := checkReturn(e.o.Exchange, e.o.Wire); err != nil {
		return err
	}
	if e.o.Copies, err = e.copies.parse(mesh); err != nil {
		return err
	}
	var w world.World
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Setup(ctx, world.Config{Mesh: &mesh, Transport: *e.transport, Deadline: *e.deadline}); err != nil {
		return splits(err, e.mesh)
	}
	info, err := w.Info()
	if err != nil {
		return err
	}
	e.o.World, e.o.Mesh, e.o.Deadline = &w, mesh, *e.deadline
	end, err := openDevice(ctx, e.device, &e.o.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	c, err := checkpoint.Open(e.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m, err := models.Open(c)
	if err != nil {
		return err
	}
	if e.adapter != "" {
		if e.o.Adapters, err = models.OpenAdapters(e.adapter, m, c); err != nil {
			return err
		}
	}
	if err := e.copies.check(m); err != nil {
		return err
	}
	ids, err := e.encode(ctx, c)
	if err != nil {
		return err
	}
	if err := w.Same(ctx, map[string]string{"the text": fmt.Sprint(len(ids), hash(ids)), "-window": fmt.Sprint(e.o.Window), "-mesh": e.mesh, "-exchange": e.o.Exchange.String(), "-wire": e.o.Wire.String(), "-copies": e.copies.fact()}); err != nil {
		return err
	}
	if e.picture != "" && info.First() {
		if err := whole.Apart(e.picture, append(filesOf(c.Path, e.adapter), append(c.Files, read(e.text))...)...); err != nil {
			return fmt.Errorf("-picture: %w", err)
		}
		f, err := whole.Create(e.picture) // fails before evaluating
		if err != nil {
			return fmt.Errorf("-picture: %w", err)
		}
		f.Discard()
	}
	r, err := evaluate.Text(ctx, m, c, ids, e.o)
	if err != nil || !info.First() {
		return err
	}
	if e.picture != "" {
		var l picture.Layers
		l.Title = fmt.Sprintf("Load of the experts: %d tokens, perplexity %.4g", r.Tokens, r.Perplexity())
		for _, x := range r.Load {
			l.Load = append(l.Load, x.Shares)
		}
		if err := whole.Write(e.picture, l.Draw); err != nil {
			return err
		}
	}
	return e.print(r)
}

// hash returns the FNV-1a hash of tokens.
func hash(ids []int32) (h uint64) {
	h = 14695981039346656037
	for _, id := range ids {
		h = (h ^ uint64(uint32(id))) * 1099511628211
	}
	return h
}

// encode returns the tokens of the text.
func (e *evaluating) encode(ctx context.Context, c *checkpoint.Checkpoint) ([]int32, error) {
	tok, err := generate.Tokenizer(c)
	if err != nil {
		return nil, err
	}
	text, err := readPrompt(ctx, e.text, e.stdin)
	if err != nil {
		return nil, fmt.Errorf("-text: %w", err)
	}
	return tok.Encode(text, tokenizer.Options{})
}

// evaluated is the JSON output of gomoe eval.
type evaluated struct {
	Tokens     int             `json:"tokens"`
	Predicted  int             `json:"predicted"`
	Windows    int             `json:"windows"`
	Window     int             `json:"window"`
	Loss       float64         `json:"loss"`
	Perplexity float64         `json:"perplexity"`
	Seconds    float64         `json:"seconds"`
	Speed      float64         `json:"tokens_per_second"`
	Load       []evaluatedLoad `json:"load"`
}

type evaluatedLoad struct {
	Layer  string    `json:"layer"`
	Shares []float64 `json:"shares"`
}

func (e *evaluating) print(r evaluate.Result) error {
	speed := float64(r.Tokens) / r.Time.Seconds()
	if math.IsNaN(r.Loss) || math.IsInf(r.Perplexity(), 0) {
		return fmt.Errorf("the loss is %g: the model's numbers are not finite, or too large", r.Loss)
	}
	if e.json {
		out := evaluated{r.Tokens, r.Predicted, r.Windows, r.Window, r.Loss, r.Perplexity(), r.Time.Seconds(), speed, []evaluatedLoad{}}
		for _, l := range r.Load {
			out.Load = append(out.Load, evaluatedLoad(l))
		}
		return printJSON(e.stdout, out)
	}
	return e.table(e.stdout, r, speed)
}

// table prints a result as text.
func (e *evaluating) table(w io.Writer, r evaluate.Result, speed float64) error {
	windows := "1 window"
	if r.Windows != 1 {
		windows = fmt.Sprintf("%d windows", r.Windows)
	}
	_, err := fmt.Fprintf(w, "tokens      %d in %s of %d, %d of them predicted\nloss        %.6f nats a token\nperplexity  %.6g\nspeed       %.1f tokens/s\n",
		r.Tokens, windows, r.Window, r.Predicted, r.Loss, r.Perplexity(), speed)
	for _, l := range r.Load {
		if err != nil {
			break
		}
		least, most := 1.0, 0.0
		for _, x := range l.Shares {
			least, most = min(least, x), max(most, x)
		}
		n := float64(len(l.Shares))
		_, err = fmt.Fprintf(w, "%s: the experts have %.2f to %.2f of their fair share\n", plainText(l.Layer), least*n, most*n)
	}
	return err
}
