package graph

import (
	"errors"
	"fmt"
)

// RematOp applies Fn, a program, to the arguments. The gradient keeps the arguments and
// the last Keep results of Fn. It recomputes all other values of Fn that it needs once
// the cotangents of the results are available.
type RematOp struct {
	Fn   *Program
	Keep int
}

// Blocks marks RematOp as a primitive that may take weights in blocks, which Fn uses.
func (RematOp) Blocks() {}

func (RematOp) Name() string { return "remat" }

func (r RematOp) Infer(in []Type) ([]Type, error) {
	switch {
	case r.Fn == nil:
		return nil, errors.New("fn is missing; name a program of this file")
	case r.Keep < 0 || r.Keep > len(r.Fn.Out):
		return nil, fmt.Errorf("keep=%d, want the number of results of %s that the gradient keeps, 0 to %d", r.Keep, r.Fn.Name, len(r.Fn.Out))
	}
	if err := sameTypes(in, types(r.Fn.In)); err != nil {
		return nil, fmt.Errorf("%s: argument %w", r.Fn.Name, err)
	}
	return types(r.Fn.Out), nil
}

func (RematOp) Doc() Doc {
	return Doc{Args: "fn's inputs", Results: "fn's results", Formula: "fn(args)",
		Params: "fn: a program of the file; keep: how many of fn's last results the gradient keeps",
		Notes:  "The gradient keeps the arguments and these results. Other values of fn that it needs are computed again, when their turn comes in the backward pass."}
}
