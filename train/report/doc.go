// Package report shows a training run: progress on a terminal or in a log, one
// row per step in a CSV file, a picture of the losses and of the load of every
// expert, and a table of the tokens that each expert was given.
//
// Nothing here is safe for concurrent use; one goroutine reports.
package report
