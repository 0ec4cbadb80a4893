package meet

import "fmt"

// Meetings are those of one rank, one after another, in one job: who comes to the next
// one sooner than others must not come to the last, which they have yet to leave. Rank 0
// numbers them, as it tries to hold them; the other ranks learn the number, and come to
// no meeting twice. So ranks meet again whatever has become of the last time, on all of
// them or on some. The zero Meetings are of a rank that was at none. They are for one
// Join at a time.
type Meetings struct {
	last int // that this rank has held, or was welcome at
}

// begin returns the number of rank 0's next meeting, and of the last one of other ranks.
func (m *Meetings) begin(rank int) int {
	if rank == 0 {
		m.last++
	}
	return m.last
}

// past reports a rank that wants to join a meeting at which it was before.
func past(last, number int) error {
	if last < number {
		return nil
	}
	return fmt.Errorf("it was at meeting %d and looks for a later one, this is meeting %d", last, number)
}
