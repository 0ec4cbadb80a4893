package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
)

// What the kernels of a layer find wrong with a routing. Kernels of devices, which can only
// leave numbers behind, have their errors from here, too.

// NoExpert is the error of a choice of an expert that does not exist, the token being
// counted in the global batch.
func (p PrepareOp) NoExpert(token, choice, index int) error {
	return &ep.IndexError{Token: token, Choice: choice, Index: index, Experts: p.Experts}
}

// Overflow is the error of a layer that traps, of the expert in highest demand, the lowest
// of equals, which `need` pairs choose. All ranks agree on it.
func (p PrepareOp) Overflow(expert, need int) error {
	return &exec.Agreed{Err: p.named(&ep.OverflowError{Expert: expert, Need: need, Capacity: p.Capacity})}
}

// NoExpert is the error of a routing, not made by ep_prepare, whose pair names an
// expert that does not exist.
func (DispatchOp) NoExpert(pair, expert, experts int) error {
	return fmt.Errorf("routing of pair %d names expert %d, want 0 to %d, or -1 for none", pair, expert, experts-1)
}

// NoRoom is the error of a routing that fills more rows than its capacity allows.
func (DispatchOp) NoRoom(used, rows int) error {
	return fmt.Errorf("the routing fills %d rows, room is for %d; it was not made by ep_prepare with this capacity", used, rows)
}
