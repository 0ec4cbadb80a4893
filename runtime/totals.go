package runtime

import (
	"time"

	"github.com/gomoe/gomoe/lowering"
)

// Totals has the times of a rank's steps and of its activities. Kernels, Collectives and
// Waits do not overlap; the rest of Steps is the start of steps and instructions.
type Totals struct {
	Steps   time.Duration
	Kernels time.Duration // on the host
	// Collectives is the time during which the rank exchanged data and did nothing else.
	// It includes waiting for the other ranks of a collective.
	Collectives time.Duration
	Beside      time.Duration // of collectives overlapping kernels
	Waits       time.Duration // for collectives overlapping kernels, and for a device
}

// NewTotals returns a trace writing nothing, only adding up times for Totals.
func NewTotals() *Trace { return NewTrace(nil) }

// Totals returns the times of a rank of this process since the trace was made.
func (t *Trace) Totals(rank int) Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.totals[rank]
}

// count adds the time since began to one of a rank's times.
func (t *Trace) count(rank int, which func(*Totals) *time.Duration, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.totals[rank]
	*which(&x) += time.Since(began)
	t.totals[rank] = x
}

// countInstr counts an instruction on a track. A loop instruction is not counted: its
// body's instructions are.
func (t *Trace) countInstr(track, rank int, in *lowering.Instr, began time.Time) {
	switch {
	case in.Loop != nil:
	case track != rank:
		t.count(rank, func(x *Totals) *time.Duration { return &x.Beside }, began)
	case in.Communicates():
		t.count(rank, func(x *Totals) *time.Duration { return &x.Collectives }, began)
	default:
		t.count(rank, func(x *Totals) *time.Duration { return &x.Kernels }, began)
	}
}
