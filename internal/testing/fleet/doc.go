// Package fleet runs the ranks of a job as processes, for tests that kill them, stop
// them and cut their network. A rank is the test's own binary, started again. It reports
// events on its standard output, or through a named pipe if a launcher has started it. No
// process outlives the test.
package fleet
