package optimize

import (
	"context"
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Pass is one rewriting of programs.
type Pass struct {
	Name string
	// Run returns the rewritten program and does not change p. p must hold no
	// graph.CustomOp (see graph.Inline).
	Run func(ctx context.Context, p *graph.Program) (*graph.Program, error)
}

// Passes returns all passes in execution order.
func Passes() []Pass {
	return []Pass{
		{"constants", atOnce(constants)},
		{"identities", atOnce(identities)},
		{"common", atOnce(common)},
		{"dead", atOnce(dead)},
		{"loops", loops},
	}
}

// atOnce turns a rewrite in a single traversal, which needs no context, into a pass.
func atOnce(run func(*graph.Program) (*graph.Program, error)) func(context.Context, *graph.Program) (*graph.Program, error) {
	return func(_ context.Context, p *graph.Program) (*graph.Program, error) { return run(p) }
}

// Order is a constraint that one pass runs before another, with the reason.
type Order struct{ First, Then, Why string }

// Constraints returns the constraints on the order of the passes.
func Constraints() []Order {
	return []Order{
		{"constants", "identities", "a factor is known to be 1 once the constants that make it are folded"},
		{"constants", "common", "constants made in different ways are equal once they are folded"},
		{"identities", "common", "equations are equal once their arguments are the same values"},
		{"constants", "dead", "nobody uses the constants that were folded into another"},
		{"identities", "dead", "nobody uses a factor of 1, or the inner of two transposes, any more"},
		{"dead", "loops", "what an equation that is dead reads of a loop is not used"},
		{"common", "dead", "what only a merged equation used, such as a copy of a constant, is dead"},
	}
}

// Program returns p after all passes. p must hold no graph.CustomOp. If ctx ends, Program
// returns its cause.
func Program(ctx context.Context, p *graph.Program) (*graph.Program, error) {
	for _, pass := range Passes() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		q, err := pass.Run(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("optimize: pass %s: %w", pass.Name, err)
		}
		p = q
	}
	return p, nil
}
