package main

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// writer lets a trained model write, on one rank.
type writer struct {
	c   config
	job *gomoe.Job
	in  map[string]array.Array
}

func newWriter(c config, weights map[string]array.Array) (*writer, error) {
	c.Capacity = 0 // a batch of one sequence must not drop
	p, err := graph.Trace("next", func(t *graph.Tracer) []*graph.Value {
		bytes := t.Input("bytes", graph.I32, 1, c.Seq)
		w, _ := c.inputs(t, "w_")
		logits, _ := c.logits(w, bytes)
		return []*graph.Value{logits}
	})
	if err != nil {
		return nil, err
	}
	job, err := gomoe.Open(p, gomoe.Config{})
	if err != nil {
		return nil, err
	}
	return &writer{c, job, weights}, nil
}

// write returns n bytes that the model writes after prompt, drawn at the given
// temperature.
func (w *writer) write(ctx context.Context, prompt string, n int, temperature float64, seed uint64) (string, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	out := []byte(prompt)
	window := make([]int32, w.c.Seq)
	for range n {
		seen := out[max(0, len(out)-w.c.Seq):]
		clear(window)
		for i, b := range seen {
			window[i] = int32(b)
		}
		bytes, err := array.Of(window, 1, w.c.Seq)
		if err != nil {
			return "", err
		}
		w.in["bytes"] = bytes
		res, err := w.job.Step(ctx, w.in)
		if err != nil {
			return string(out[len(prompt):]), err
		}
		logits := array.Data[float32](res[0])[(len(seen)-1)*w.c.Vocab : len(seen)*w.c.Vocab]
		out = append(out, draw(logits, temperature, rng.Float64()))
	}
	return string(out[len(prompt):]), nil
}

// draw returns the byte at u of the distribution softmax(logits/temperature).
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
