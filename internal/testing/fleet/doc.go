// Package fleet runs the ranks of a job as processes, for tests that kill them, stop
// them and cut their network. A rank is the test's own binary, started again; what it
// has to say comes as events on its standard output. Nothing outlives the test.
package fleet
