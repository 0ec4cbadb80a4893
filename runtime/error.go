package runtime

import (
	"errors"
	"fmt"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
)

// Error is a failure of a rank during a plan.
type Error struct {
	Plan  string
	Rank  int
	Index int // of the instruction
	Name  string
	Pos   graph.Pos
	Err   error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: rank %d, instruction %d of plan %s: %v", e.Pos, e.Name, e.Rank, e.Index, e.Plan, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// agreed reports whether every rank returns err at the same instruction, so that no rank
// is left waiting.
func agreed(err error) bool {
	var a *exec.AgreedError
	return errors.As(err, &a)
}
