package meet

import "fmt"

// Meetings counts the meetings of one rank in one job. A rank that is early for the next
// meeting must not join the last one, which other ranks have yet to leave. Rank 0 numbers
// the meetings, including failed ones; the other ranks learn the number and join no
// meeting twice. So ranks can meet again, however the last meeting ended on each of them.
// The zero Meetings is for a rank that has joined none. Only one Join at a time may use a
// Meetings.
type Meetings struct {
	last int // the number of the last meeting that this rank began, as rank 0, or joined
}

// begin returns, on rank 0, the number of its next meeting, and on other ranks the number
// of the last meeting that they have joined.
func (m *Meetings) begin(rank int) int {
	if rank == 0 {
		m.last++
	}
	return m.last
}

// past returns an error unless number, the meeting that a rank wants to join, comes after
// last, the last one that it has joined.
func past(last, number int) error {
	if last < number {
		return nil
	}
	return fmt.Errorf("it was at meeting %d and looks for a later one, this is meeting %d", last, number)
}
