// Package tracefile merges the traces of a job's processes, in the Trace Event
// Format, into one whose times are rank 0's.
package tracefile
