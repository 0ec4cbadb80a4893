package lm

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/data"
	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/train"
)

// Bytes is a text whose tokens are its bytes.
type Bytes struct {
	*text.Corpus
	// Entropy is that of single bytes, in nats.
	Entropy float64
	// Held is the batch of held-out text; nil if it was not asked for.
	Held map[string]array.Array

	rows, length int
	ones         array.Array
}

// NewBytes returns the batches of a text: that many sequences, and bytes of each. held asks for a batch of held-out text. A
// text that is too short for a batch is an error.
func NewBytes(c *text.Corpus, rows, length int, held bool) (*Bytes, error) {
	b := &Bytes{Corpus: c, rows: rows, length: length, ones: array.New(graph.T(graph.F32, rows, length))}
	for i, x := 0, array.Data[float32](b.ones); i < len(x); i++ {
		x[i] = 1
	}
	b.Entropy, _ = c.UnigramEntropy()
	_, err := b.Step(1)
	if err == nil && held {
		if b.Held, err = b.batch(c.HeldBatch(rows, length)); err != nil {
			err = fmt.Errorf("the loss on held-out text: %w", err)
		}
	}
	return b, err
}

// Step returns the batch of a step, a function of the seed and the step.
func (b *Bytes) Step(step int) (map[string]array.Array, error) {
	return b.batch(b.Batch(step, b.rows, b.length))
}

// Parts is Step as train.Loop has it.
func (b *Bytes) Parts(step int) (train.Parts, error) {
	arrays, err := b.Step(step)
	return train.Whole(arrays), err
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
