package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/work"
)

// boxMove moves a box of the shape from argument number arg to the result. Each has its
// layout: the place of the first element, and strides, in elements.
type boxMove = func(a *exec.Args, arg int, shape []int, toAt int, to []int, fromAt int, from []int)

// rearrangement is a primitive whose result consists of boxes of elements of its arguments.
type rearrangement interface {
	primitive
	// Boxes calls move for each box, in order. Later boxes may overwrite elements of earlier ones.
	// a has the types of arguments and results; their elements are not read.
	Boxes(a *exec.Args, move boxMove)
}

// moveBoxes returns the host kernel of a rearrangement.
func moveBoxes(p rearrangement) exec.Kernel {
	return func(a *exec.Args) error {
		p.Boxes(a, func(a *exec.Args, arg int, shape []int, toAt int, to []int, fromAt int, from []int) {
			work.Move(a, shape, a.Out[0], work.Layout{At: toAt, Strides: to}, a.In[arg], work.Layout{At: fromAt, Strides: from})
		})
		return nil
	}
}
