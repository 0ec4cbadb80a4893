package data

import (
	"fmt"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/runtime"
)

// Arrays of a batch, each [rows,length].
const (
	Tokens    = "tokens"    // i32
	Targets   = "targets"   // i32: the following token of the document, or 0
	Weights   = "weights"   // f32: 1 for targets to predict, 0 for others
	Positions = "positions" // i32: the token's position in its document, or in the sequence if the document begins before it
	Documents = "documents" // i32: the number of the token's document; distinct for each document of a sequence, and for its padding
)

func names() []string { return []string{Tokens, Targets, Weights, Positions, Documents} }

// Batch is the batch of a step.
type Batch struct {
	b    *Batches
	step int64
}

// Step returns the batch of step n, counting from 0. The number of steps is not limited.
func (b *Batches) Step(n int64) Batch { return Batch{b, n} }

// Type returns the type of an array of the batch.
func (x Batch) Type(name string) (graph.Type, error) {
	d := graph.I32
	switch name {
	case Weights:
		d = graph.F32
	case Tokens, Targets, Positions, Documents:
	default:
		return graph.Type{}, fmt.Errorf("data: a batch has no array %s, it has %s", quoted.Text(name), strings.Join(names(), ", "))
	}
	return graph.T(d, x.b.order.Rows, x.b.order.Length), nil
}

// Array returns an array of the batch.
func (x Batch) Array(name string) (array.Array, error) {
	t, err := x.Type(name)
	if err != nil {
		return array.Array{}, err
	}
	a := array.New(t)
	return a, x.fill(name, a, 0, 0)
}

// Fill returns a function for Session.PutParts that writes an array of the batch. It reads only the tokens of the
// part's rows. The function returns an error if the input's type differs from the array's, or if a file has a token
// outside its vocabulary.
func (x Batch) Fill(name string) func(runtime.Part) error {
	return func(p runtime.Part) error {
		t, err := x.Type(name)
		if err != nil {
			return err
		}
		if !p.Whole.Equal(t) {
			return fmt.Errorf("data: %s is %s, and the input %s", name, t, p.Whole)
		}
		return x.fill(name, p.Array, p.Start[0], p.Start[1])
	}
}

// fill writes the box of an array beginning at the given row and column.
func (x Batch) fill(name string, to array.Array, row, column int) error {
	if x.step < 0 {
		return fmt.Errorf("data: step %d, want 0 or more", x.step)
	}
	columns := to.Type.Shape[1]
	for i := range to.Type.Shape[0] {
		first, n := x.b.sequence(x.step, row+i)
		for j := range columns {
			e, err := x.b.set.element(first, n, column+j)
			if err != nil {
				return err
			}
			at := i*columns + j
			switch name {
			case Weights:
				array.Data[float32](to)[at] = e.weight
			case Tokens:
				array.Data[int32](to)[at] = e.token
			case Targets:
				array.Data[int32](to)[at] = e.target
			case Positions:
				array.Data[int32](to)[at] = e.position
			case Documents:
				array.Data[int32](to)[at] = e.document
			}
		}
	}
	return nil
}

// element holds the entries of a batch for one token.
type element struct {
	token, target, position, document int32
	weight                            float32
}

// element returns the entries at index i of a sequence of n tokens.
func (s *Set) element(first int64, n, i int) (e element, err error) {
	token := first + int64(min(i, n-1))
	e.document = int32(s.document(token) - s.document(first))
	if i >= n { // padding
		return element{document: e.document + 1, position: int32(i - n)}, nil
	}
	shard, at := s.at(token)
	x := s.shards[shard]
	_, begin, end := x.document(at)
	if e.token, err = x.token(at); err != nil {
		return e, err
	}
	e.position = int32(min(i, at-begin))
	if at+1 < end {
		if e.target, err = x.token(at + 1); err != nil {
			return e, err
		}
		if x.learn[at+1] != 0 {
			e.weight = 1
		}
	}
	return e, nil
}

// token returns a token of the file.
func (x *shard) token(at int) (int32, error) {
	id := x.tokens[at]
	if id < 0 || int(id) >= x.vocab {
		return 0, fmt.Errorf("data: %s: token %d is %d, want one of 0 to %d", x.Path(), at, id, x.vocab-1)
	}
	return id, nil
}
