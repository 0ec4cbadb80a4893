package lm

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/train"
)

// Bytes is a text with one token per byte.
type Bytes struct {
	*text.Corpus
	// Entropy is the entropy of single bytes, in nats.
	Entropy float64
	// Held is a batch of held-out text; nil if not requested.
	Held map[string]array.Array

	rows, length int
	ones         array.Array
}

// NewBytes returns batches of a text, with the given number of sequences and bytes per sequence. held requests a
// batch of held-out text. It is an error if the text is too short for a batch.
func NewBytes(c *text.Corpus, rows, length int, held bool) (*Bytes, error) {
	b := &Bytes{Corpus: c, rows: rows, length: length, ones: array.New(graph.T(graph.F32, rows, length))}
	for i, x := 0, array.Data[float32](b.ones); i < len(x); i++ {
		x[i] = 1
	}
	b.Entropy, _ = c.UnigramEntropy()
	_, err := b.Step(1)
	if err == nil && held {
		if b.Held, err = b.batch(c.HeldBatch(rows, length)); err != nil {
			err = fmt.Errorf("the loss on held-out text: %w, or turn the loss off, with -eval 0 or \"eval_every\": 0", err)
		}
	}
	return b, err
}

// Step returns the batch of a step, determined by the seed and the step number.
func (b *Bytes) Step(step int) (map[string]array.Array, error) {
	return b.batch(b.Batch(step, b.rows, b.length))
}

// Parts is Step in the form that train.Loop needs: a process reads only the sequences of its own ranks.
func (b *Bytes) Parts(step int) (train.Parts, error) {
	cut := func(name string, later int) func(runtime.Part) error {
		return func(p runtime.Part) error {
			if want := graph.T(graph.I32, b.rows, b.length); !p.Whole.Equal(want) {
				return fmt.Errorf("%s is %s, want %s", name, want, p.Whole)
			}
			columns, to := p.Type.Shape[1], array.Data[int32](p.Array)
			for i := range p.Type.Shape[0] {
				from := b.Sequence(step, p.Start[0]+i, b.length)[p.Start[1]+later:]
				for j := range columns {
					to[i*columns+j] = int32(from[j])
				}
			}
			return nil
		}
	}
	parts := train.Whole(map[string]array.Array{data.Weights: b.ones})
	parts[data.Tokens], parts[data.Targets] = cut(data.Tokens, 0), cut(data.Targets, 1)
	return parts, nil
}

func (b *Bytes) batch(tokens, targets []int32, err error) (map[string]array.Array, error) {
	if err != nil {
		return nil, err
	}
	of := map[string]array.Array{data.Weights: b.ones}
	for name, x := range map[string][]int32{data.Tokens: tokens, data.Targets: targets} {
		if of[name], err = array.Of(x, b.rows, b.length); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// Parts returns the arrays of a batch, each process reading only its ranks' rows. Rows from last on get weight 0.
func Parts(b data.Batch, last int, inputs ...string) train.Parts {
	in := train.Parts{}
	for _, name := range inputs {
		in[name] = b.Fill(name)
	}
	weights := in[data.Weights]
	in[data.Weights] = func(p runtime.Part) error {
		err := weights(p)
		if count := max(last-p.Start[0], 0); count < p.Type.Shape[0] {
			clear(array.Data[float32](p.Array)[count*p.Type.Shape[1]:])
		}
		return err
	}
	return in
}

// HeldOut returns a function measuring the loss, in nats per token, over batches of the given number of rows. It
// uses each sequence once, or only the first most batches if most is not 0. inputs are the arrays read by the
// evaluation, which must return the results of Step.Evaluation.
func HeldOut(b *data.Batches, rows, most int, inputs ...string) func(context.Context, *train.Evaluation) (float64, error) {
	return func(ctx context.Context, e *train.Evaluation) (float64, error) {
		sum, count, n := 0.0, 0.0, int(b.Sequences())
		for step := 0; step*rows < n && (most == 0 || step < most); step++ {
			x, err := e.Scalars(ctx, Parts(b.Step(int64(step)), n-step*rows, inputs...), "loss", train.WeightResult)
			if err != nil {
				return 0, err
			}
			sum, count = sum+x[0]*x[1], count+x[1]
		}
		if count == 0 {
			return 0, errors.New("the held-out text has no token that is to be predicted")
		}
		return sum / count, nil
	}
}
