package mesh

import (
	"fmt"

	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/reduce"
	"github.com/gomoe/gomoe/jaccl"
)

// argument is the failure of a rank that calls an operation with what can not be.
func (g *group) argument(c collective.Call, format string, a ...any) *failure {
	rank := g.c.rank
	return &failure{[]int{rank}, fmt.Sprintf("rank %d calls %s with ", rank, c) + fmt.Sprintf(format, a...), jaccl.ErrArgument}
}

func (g *group) named(c collective.Call, op string) *failure {
	if c.Op != op {
		return g.argument(c, "the method of %s, want the method of its name", op)
	}
	return nil
}

// reducible checks the element type and that a buffer holds whole elements.
func (g *group) reducible(c collective.Call, b []byte) *failure {
	switch {
	case !c.DType.IsInt() && !c.DType.IsFloat() && c.DType != graph.Bool:
		return g.argument(c, "elements of %s, want a type that JACCL reduces: %s to %s", c.DType, graph.Bool, graph.F64)
	case len(b)%c.DType.Size() != 0:
		return g.argument(c, "a buffer of %d bytes, want whole elements of %d bytes", len(b), c.DType.Size())
	}
	return nil
}

// apart checks that two buffers do not overlap.
func (g *group) apart(c collective.Call, dst, src []byte) *failure {
	if reduce.Overlap(dst, src) {
		return g.argument(c, "a dst that overlaps src, want separate buffers")
	}
	return nil
}

func (g *group) member(c collective.Call, i int) *failure {
	if i < 0 || i >= len(g.ranks) || i == g.index {
		return g.argument(c, "member %d, want another one of %d", i, len(g.ranks))
	}
	return nil
}

// first returns the first failure.
func first(fs ...*failure) *failure {
	for _, f := range fs {
		if f != nil {
			return f
		}
	}
	return nil
}
