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
	// Shard returns where the results lie and where the arguments must lie for that, given
	// where the arguments are now. The engine completes pending sums and takes parts of whole
	// values by itself. Any other move is an error that names sharding_constraint as the
	// remedy, except in a derivative, whose equations gather their arguments (see Context.Place).
	Shard(c *Context) (Decision, error)
}

// Flexible is implemented by rules whose result a rank can make in any
// placement without moving data (constants, iota, broadcasts, random bits).
type Flexible interface {
	Rule
	// ShardAs returns the decision that gives the result the placement out.
	ShardAs(c *Context, out Spec) (Decision, error)
}

// Pointwise is implemented by rules whose arguments and single result have the same shape and
// placement; an argument may be a scalar instead. If all arguments can be made in any
// placement, so can the result.
type Pointwise interface {
	Rule
	Pointwise()
}

// Rearranging is implemented by rules with one result that only moves the elements of the
// arguments, such as a slice. If all arguments can be made in any placement, so can the
// result: dimensions without a factor are made whole, and ranks take their parts of them.
type Rearranging interface {
	Rule
	// Factors returns the factors by which the rule places its equation, where dimension 0 is
	// rows in expert order or not.
	Factors(c *Context, rows bool) Factors
}

// Leaver is implemented by rules that place their argument. Where their result is a result
// of the program, it stays pending if the rule leaves it so. Pending sums of other results
// are completed.
type Leaver interface {
	Rule
	LeavesPending()
}

// Blocked is implemented by rules that sum over a split dimension and leave the sum pending,
// and that can make the sum of each of a number of equal blocks of the dimension instead, and
// add these in pairs: the sum of the first half of the blocks, formed so, plus that of the
// other half. A rank has some of the blocks. Where each has one part of that tree, all of one
// size, its sum is left pending; otherwise the ranks complete the sum at once.
type Blocked interface {
	Rule
	// InBlocks returns the primitive that does so with that many blocks, a power of two, for
	// an equation whose arguments are placed as in. It may return one that leaves no sum
	// pending, and has the same bits on every mesh. The error says why there is neither.
	InBlocks(e *graph.Eqn, in []Spec, blocks int) (graph.Primitive, error)
}

// Context is what a rule decides from.
type Context struct {
	Mesh Mesh
	Eqn  *graph.Eqn
	// In are the placements of the arguments, normalised.
	In []Spec

	asg   *Assignment // which the equation is placed for
	moves bool        // the equation is one of a derivative, whose arguments may be moved
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

// Whole returns the decision that needs every argument whole and gives whole results. Pending
// sums are completed first; a split argument is an error.
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

// Free reports whether a value in placement from can be had in placement to without an explicit
// constraint: by completing a pending sum, by each rank taking its part of a dimension that it
// holds whole, or both. A value is also the pending sum of itself on the first rank and of
// zeros on the others.
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

// sameRows returns an error if one placement has rows in expert order and the other has not the
// same: no exchange moves these.
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

// splitError refuses the placement of an argument of an equation, or of the value that is asked
// for where arg is -1, because of axes that split it.
type splitError struct {
	arg  int
	axes []string
	text string
}

func (e *splitError) Error() string { return e.text }
