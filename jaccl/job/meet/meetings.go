package meet

import "fmt"

// Meetings counts the meetings of one rank in one job. A rank that is early for the next
// meeting must not join the last one, which other ranks have yet to leave. Rank 0 numbers
// the meetings, also those that fail; the other ranks learn the number and join no meeting
// twice. So ranks can meet again, however the last meeting ended on each of them. The zero
// Meetings is that of a rank that has joined none. It is for one Join at a time.
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

// past returns an error if a rank wants to join a meeting that it has joined before.
func past(last, number int) error {
	if last < number {
		return nil
	}
	return fmt.Errorf("it was at meeting %d and looks for a later one, this is meeting %d", last, number)
}
