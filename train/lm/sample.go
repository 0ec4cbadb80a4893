package lm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/runtime"
)

// sampleName is the file of the text written at the end of a run.
const sampleName = "sample.txt"

// sample generates text following the prompt with the trained model, prints it and writes it to sample.txt. It runs
// on one rank.
func (c Command) sample(ctx, stop context.Context, o *Options, weights map[string]array.Array, stdout io.Writer) (err error) {
	if stop.Err() != nil {
		stop = ctx // one interrupt has ended training; the next one ends the program
	}
	w, err := c.newWriter(stop, o, weights)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	fmt.Fprintf(stdout, "sample:\n%s", printable(o.Prompt))
	text, err := w.write(ctx, stop, o.Prompt, o.Sample, o.Temperature, o.Seed)
	fmt.Fprintln(stdout, printable(text))
	if err != nil {
		return fmt.Errorf("sample: %w", err)
	}
	return whole.Write(filepath.Join(o.Out, sampleName), func(w io.Writer) error { _, err := io.WriteString(w, o.Prompt+text); return err })
}

// printable replaces bytes that a terminal would not display or would interpret: a barely trained model writes
// arbitrary bytes.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return '?'
	}, s)
}

// writer generates text with a trained model on one rank, which has its own copy of the weights.
type writer struct {
	length int // of the context window
	job    *gomoe.Job
	in     map[string]*runtime.Array
}

// newWriter returns a writer. It copies the weights, given by name. When ctx ends, compilation stops.
func (c Command) newWriter(ctx context.Context, o *Options, weights map[string]array.Array) (*writer, error) {
	p, err := graph.Trace("next", func(t *graph.Tracer) []*graph.Value {
		bytes := t.Input(data.Tokens, graph.I32, 1, o.Length)
		s := nn.New(t, c.step(o).Train.Model)
		return []*graph.Value{c.Model.Forward(s, bytes, false).Named("logits")} // no drops: a batch of one sequence must not drop tokens
	})
	if err != nil {
		return nil, err
	}
	job, err := gomoe.Open(ctx, p, gomoe.Config{Options: runtime.Options{Device: o.device}})
	if err != nil {
		return nil, err
	}
	in := map[string]*runtime.Array{}
	for name, a := range weights {
		if in[name], err = job.Put(name, a); err != nil {
			return nil, errors.Join(err, job.Close())
		}
	}
	return &writer{o.Length, job, in}, nil
}

// write generates n bytes following prompt, which must not be empty, sampling at the given temperature. When stop
// ends, it returns the bytes generated so far; when ctx ends, it returns an error.
func (w *writer) write(ctx, stop context.Context, prompt string, n int, temperature float64, seed uint64) (string, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := []byte(prompt)
	window := make([]int32, w.length)
	for range n {
		if ctx.Err() != nil {
			return string(out[len(prompt):]), context.Cause(ctx)
		}
		if stop.Err() != nil {
			break
		}
		// Bytes after the visible ones have no influence, because attention is causal and nothing is dropped.
		seen := out[max(0, len(out)-w.length):]
		for i, b := range seen {
			window[i] = int32(b)
		}
		next, err := w.logits(ctx, window, len(seen)-1)
		if err != nil {
			return string(out[len(prompt):]), err
		}
		out = append(out, draw(next, temperature, rng.Float64()))
	}
	return string(out[len(prompt):]), nil
}

// logits returns the logits f32[V] of the byte following window[at].
func (w *writer) logits(ctx context.Context, window []int32, at int) ([]float32, error) {
	bytes, err := array.Of(window, 1, w.length)
	if err != nil {
		return nil, err
	}
	if w.in[data.Tokens], err = w.job.Put(data.Tokens, bytes); err != nil {
		return nil, err
	}
	out, err := w.job.Run(ctx, w.in)
	if err != nil {
		return nil, err
	}
	defer w.job.Recycle(out[0], w.in[data.Tokens])
	parts, err := out[0].Parts()
	if err != nil {
		return nil, err
	}
	return slices.Clone(array.Data[float32](parts[0].Array)[at*Vocab:][:Vocab]), nil
}

// draw inverts the cumulative distribution of softmax(logits/temperature) at u in [0, 1).
func draw(logits []float32, temperature, u float64) byte {
	top := float32(math.Inf(-1))
	for _, x := range logits {
		top = max(top, x)
	}
	p := make([]float64, len(logits))
	sum := 0.0
	for i, x := range logits {
		p[i] = math.Exp(float64(x-top) / temperature)
		sum += p[i]
	}
	u *= sum
	for i, x := range p {
		if u -= x; u < 0 {
			return byte(i)
		}
	}
	return byte(len(p) - 1)
}

// Close releases the rank.
func (w *writer) Close() error { return w.job.Close() }
