// Package engine measures whole layers and training steps: their time, the memory
// that they use beyond what their plans say, and what they allocate. It consists of
// tests and benchmarks only.
package engine
