// Package engine measures whole layers and training steps: their time, their memory in excess of
// the plans' figures, and their allocations. It consists of tests and benchmarks only.
package engine
