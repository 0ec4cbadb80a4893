// Package flight records the last operations of a rank, as an aircraft's recorder
// does: what was called, when, among whom, with how many bytes, and how it ended.
// When a job fails, every rank's record says where it was; side by side they show
// which rank was elsewhere.
//
// A Recorder wraps a communicator. Recording takes two readings of the clock and no
// memory per operation.
package flight
