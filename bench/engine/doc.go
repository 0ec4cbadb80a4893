// Package engine measures whole layers and training steps: their time, the memory
// that they take beside what their plans say, and what they allocate. It holds tests
// and benchmarks only.
package engine
