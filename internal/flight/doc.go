// Package flight records the last operations of a rank, as an aircraft's flight
// recorder does: what was called, when, among which ranks, with how many bytes, and
// how it ended. When a job fails, every rank's record says where the rank was; side
// by side the records show which rank was elsewhere.
//
// Begin with New; Recorder.Wrap wraps a communicator. Recording an operation reads
// the clock twice and allocates nothing.
package flight
