package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
)

// The errors of kernels that find a mistake in a routing. Devices use these functions too:
// their kernels can only return numbers, from which the errors are made.

// NoExpert returns the error for a choice of an expert that does not exist. token is the
// number of the token in the global batch.
func (p PrepareOp) NoExpert(token, choice, index int) error {
	return &ep.IndexError{Token: token, Choice: choice, Index: index, Experts: p.Experts}
}

// Overflow returns the error of a layer that traps. expert is the expert that the most
// pairs choose, the lowest of several; need is the number of these pairs. All ranks return
// the same error.
func (p PrepareOp) Overflow(expert, need int) error {
	return &exec.AgreedError{Err: p.named(&ep.OverflowError{Expert: expert, Need: need, Capacity: p.Capacity})}
}

// TooManyRows is Overflow for a rank, the lowest of several, that the most rows are for.
func (p PrepareOp) TooManyRows(rank, need int) error {
	return &exec.AgreedError{Err: p.named(&ep.ReceiveError{Rank: rank, Need: need, Capacity: p.Receive})}
}

// NoExpert returns the error for a routing, not made by ep_prepare, in which a pair names
// an expert that does not exist.
func (DispatchOp) NoExpert(pair, expert, experts int) error {
	return fmt.Errorf("routing of pair %d names expert %d, want 0 to %d, or -1 for none", pair, expert, experts-1)
}

// NoRoom returns the error for a routing that fills more rows than its capacity allows.
func (DispatchOp) NoRoom(used, rows int) error {
	return fmt.Errorf("the routing fills %d rows, room is for %d; it was not made by ep_prepare with this capacity, or a token chooses an expert twice although ep_prepare has distinct", used, rows)
}

// NoToken returns the error for a row that has arrived with the number of a token which its member
// does not have.
func (DispatchOp) NoToken(row, member, token, tokens int) error {
	return fmt.Errorf("row %d of member %d is token %d, want one of its %d", row, member, token, tokens)
}
