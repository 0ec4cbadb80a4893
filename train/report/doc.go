// Package report presents a training run: progress on a terminal or in a log, a CSV file with one row per step,
// gauges for Prometheus, and a table of the tokens routed to each expert. Package picture draws its curves.
//
// Begin with NewProgress and CreateMetrics. Only Exporter is safe for concurrent use; one goroutine does the
// reporting.
package report
