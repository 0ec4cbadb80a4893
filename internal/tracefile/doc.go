// Package tracefile merges the traces of a job's processes, in the Trace Event Format,
// into one trace with times on rank 0's clock.
package tracefile
