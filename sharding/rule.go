package sharding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
)

// Rule is implemented by primitives that can be placed.
type Rule interface {
	graph.Primitive
	// Shard returns the placements of the results, and the placements of the arguments
	// required for them, given the arguments' current placements. The engine completes
	// pending sums and takes parts of whole values by itself. Any other move is an error
	// naming sharding_constraint as the remedy, except in a derivative, where equations
	// gather their arguments (see Context.Place).
	Shard(c *Context) (Decision, error)
}

// Flexible is implemented by rules with a result that a rank can make in any placement
// without moving data (constants, iota, broadcasts, random bits).
type Flexible interface {
	Rule
	// ShardAs returns the decision giving the result the placement out.
	ShardAs(c *Context, out Spec) (Decision, error)
}

// Pointwise is implemented by rules with the same shape and placement for all arguments
// and the single result; an argument may be a scalar instead. If all arguments can be
// made in any placement, so can the result.
type Pointwise interface {
	Rule
	Pointwise()
}

// Rearranging is implemented by rules with one result that only moves the elements of the
// arguments, such as a slice. If all arguments can be made in any placement, so can the
// result: dimensions without a factor are made whole, and ranks take their parts of them.
type Rearranging interface {
	Rule
	// Factors returns the factors for placing the rule's equation, where dimension 0 is
	// rows in expert order or not.
	Factors(c *Context, rows bool) Factors
}

// Leaver is implemented by rules placing their argument. If their result is a result of
// the program and the rule leaves it pending, it stays so. Pending sums of other results
// are completed.
type Leaver interface {
	Rule
	LeavesPending()
}

// Blocked is implemented by rules that sum over a split dimension, leaving the sum
// pending, and that can instead sum each of a number of equal blocks of the dimension and
// add these in pairs: the sum of the first half of the blocks, formed recursively, plus
// the sum of the other half. A rank has some of the blocks. If every rank has one
// subtree, all of one size, its sum is left pending; otherwise the ranks complete the sum
// at once.
type Blocked interface {
	Rule
	// InBlocks returns the primitive for that with the given number of blocks, a power of
	// two, for an equation with arguments placed as in. It may return one that leaves no
	// sum pending, and has the same bits on every mesh. It is an error if there is
	// neither.
	InBlocks(e *graph.Eqn, in []Spec, blocks int) (graph.Primitive, error)
}

// Context is the input of a rule's decision.
type Context struct {
	Mesh Mesh
	Eqn  *graph.Eqn
	// In are the placements of the arguments, normalised.
	In []Spec

	asg   *Assignment // the assignment being made
	moves bool        // the equation belongs to a derivative, so its arguments may be moved
}

// Decision is a rule's answer: one Spec per argument and per result.
type Decision struct {
	In, Out []Spec
	// Body is the placed body of a loop, nil for all other equations.
	Body *Assignment
}

// Flexible reports whether argument i can be made in any placement.
func (c *Context) Flexible(i int) bool { return c.asg.flexible[c.Eqn.In[i]] }

// Type returns the type of argument i.
func (c *Context) Type(i int) graph.Type { return c.Eqn.In[i].Type }

// Args prints the arguments with their placements.
func (c *Context) Args() string {
	s := ""
	for i, v := range c.Eqn.In {
		if i > 0 {
			s += ", "
		}
		s += c.In[i].Format(v.Type)
	}
	return s
}

// Whole returns the decision with every argument and result whole. Pending sums are
// completed first; a split argument is an error.
func (c *Context) Whole() (Decision, error) {
	f := Factors{}
	for _, v := range c.Eqn.In {
		f.In = append(f.In, whole(v.Rank()))
	}
	for _, v := range c.Eqn.Out {
		f.Out = append(f.Out, whole(v.Rank()))
	}
	return c.Place(f)
}

func whole(n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = Whole
	}
	return d
}

// Free reports whether a value in placement from is available in placement to without an
// explicit constraint: by completing a pending sum, by each rank taking its part of a
// dimension that it holds whole, or both. A value is also the pending sum of itself on
// the first rank and of zeros on the others.
func Free(from, to Spec, t graph.Type) error {
	if err := sameRows(from, to, t); err != nil {
		return err
	}
	for i := range t.Shape {
		f, want := from.At(i), to.At(i)
		if len(f) > len(want) {
			return move(from, to, t, i)
		}
		for j := range f {
			if f[j] != want[j] {
				return move(from, to, t, i)
			}
		}
	}
	return nil
}

// sameRows returns an error if one placement has rows in expert order and the other has
// not the same: no exchange moves these.
func sameRows(from, to Spec, t graph.Type) error {
	if !from.Ragged.same(to.Ragged) {
		switch {
		case from.Ragged != nil && to.Ragged != nil && from.Ragged.Routing == to.Ragged.Routing:
			return fmt.Errorf("%s is needed as rows of tokens that are split over %q, and the rows are of tokens that are split over %q; bring the tokens to one placement with sharding_constraint before they are dispatched",
				from.Format(t), strings.Join(to.Ragged.Tokens, "."), strings.Join(from.Ragged.Tokens, "."))
		case from.Ragged == nil:
			return fmt.Errorf("%s is not in expert order but is used with ragged rows; dispatch it with ep_dispatch, or combine first", from.Format(t))
		case to.Ragged == nil:
			return fmt.Errorf("%s is in expert order and its number of rows is known only to the run; use row-wise primitives and grouped_matmul, or ep_combine first", from.Format(t))
		default:
			return fmt.Errorf("%s and the other rows are in the order of different routings", from.Format(t))
		}
	}
	if from.Ragged != nil && !slices.Equal(from.At(0), to.At(0)) {
		return fmt.Errorf("%s is needed as %s: rows in expert order stay where ep_dispatch put them; bring the tokens to one placement with sharding_constraint before they are dispatched", from.Format(t), to.Format(t))
	}
	return nil
}

func move(from, to Spec, t graph.Type, dim int) error {
	return &splitError{-1, from.At(dim), fmt.Sprintf("%s is needed as %s: dimension %d would have to move between ranks; say so with sharding_constraint spec=%q", from.Format(t), to.Format(t), dim, to.String())}
}

// splitError refuses the placement of an argument of an equation, or of the requested
// value if arg is -1, because of axes splitting it.
type splitError struct {
	arg  int
	axes []string
	text string
}

func (e *splitError) Error() string { return e.text }
