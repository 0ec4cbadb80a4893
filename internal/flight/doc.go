// Package flight records the last operations of a rank, like an aircraft's flight
// recorder: the call, its time, its group, its number of bytes, and its outcome. When a
// job fails, every rank's record shows the rank's last operation; compared with each
// other, the records show the rank that was elsewhere.
//
// Begin with New; Recorder.Wrap wraps a communicator. Recording an operation reads the
// clock twice and allocates nothing. The package does not detect failures; package watch
// does.
package flight
