// Package report shows a training run: progress on a terminal or in a log, one row per step in a CSV file, gauges for
// Prometheus, and a table of the tokens that each expert was given. Package picture draws its curves.
//
// Nothing here is safe for concurrent use; one goroutine reports.
package report
