package runtime

import "time"

// QueueError is an instruction's error on a device.
type QueueError struct {
	Index int // of the instruction in the plan
	Err   error
}

func (e *QueueError) Error() string { return e.Err.Error() }
func (e *QueueError) Unwrap() error { return e.Err }

// Span is the time that a device worked on a segment.
type Span struct {
	Ticket     uint64
	From, To   time.Time
	First, Len int // of its instructions in the plan
}
