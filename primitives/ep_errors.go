package primitives

import (
	"fmt"

	"github.com/gomoe/gomoe/ep"
	"github.com/gomoe/gomoe/exec"
)

// The errors of kernels detecting a mistake in a routing. Devices call these functions too, because
// their kernels can return numbers only.

// NoExpert returns the error for a choice of an expert that does not exist. token is the
// number of the token in the global batch.
func (p PrepareOp) NoExpert(token, choice, index int) error {
	return &ep.IndexError{Token: token, Choice: choice, Index: index, Experts: p.Experts}
}

// Overflow returns the error of a trapping layer. expert is the expert in highest demand, the
// lowest of several, and need its number of pairs. All ranks return the same error.
func (p PrepareOp) Overflow(expert, need int) error {
	return &exec.AgreedError{Err: p.named(&ep.OverflowError{Expert: expert, Need: need, Capacity: p.Capacity})}
}

// TooManyRows is Overflow for the rank to which most rows are sent, the lowest of several.
func (p PrepareOp) TooManyRows(rank, need int) error {
	return &exec.AgreedError{Err: p.named(&ep.ReceiveError{Rank: rank, Need: need, Capacity: p.Receive})}
}

// NoExpert returns the error for a pair naming an expert that does not exist. The routing was
// not made by ep_prepare.
func (DispatchOp) NoExpert(pair, expert, experts int) error {
	return fmt.Errorf("routing of pair %d names expert %d, want 0 to %d, or -1 for none", pair, expert, experts-1)
}

// NoRoom returns the error for a routing filling more rows than the buffer holds.
func (DispatchOp) NoRoom(used, rows int) error {
	return fmt.Errorf("the routing fills %d rows, room is for %d; it was not made by ep_prepare with this capacity, or a token chooses an expert twice although ep_prepare has distinct", used, rows)
}

// NoToken returns the error for a received row with a token number out of the range of its
// sender's tokens.
func (DispatchOp) NoToken(row, member, token, tokens int) error {
	return fmt.Errorf("row %d of member %d is token %d, want one of its %d", row, member, token, tokens)
}
