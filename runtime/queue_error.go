package runtime

import "time"

// QueueError reports an instruction that failed on a device.
type QueueError struct {
	Index int // of the instruction in the plan
	Err   error
}

func (e *QueueError) Error() string { return e.Err.Error() }
func (e *QueueError) Unwrap() error { return e.Err }

// Span is the time during which a device ran a segment.
type Span struct {
	Ticket     uint64
	From, To   time.Time
	First, Len int // the segment's instructions in the plan
}
