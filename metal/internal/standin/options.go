package standin

import "time"

// Order is the order in which the emulated GPU runs what a real one runs at once:
// threads, simdgroups, threadgroups, and the dispatches of a concurrent encoder. Kernels
// are tested in all.
type Order int

// Orders.
const (
	Forward Order = iota
	Reverse
	Random // by Options.Seed
)

// Options say how a stand-in behaves. Its zero is what tests want that do not ask for
// anything in particular.
type Options struct {
	Order Order
	Seed  uint64 // of Random

	// Leader has lane 0 compute the matrix products of a simdgroup, ten times as fast.
	Leader bool
	// Lint has sources checked for their address spaces, too.
	Lint bool
	// Eager runs command buffers when they are committed, as far as they go.
	Eager bool
	// Absent is a system without a device.
	Absent bool
	// System is the major version of macOS; 0 is 15.
	System int
	// Family is the greatest n of MTLGPUFamilyApple<n> that the GPU supports; 0 is 9, and
	// -1 is none.
	Family int
	// Width is how many threads of a simdgroup pipelines say that they have; 0 is 32. The
	// emulated GPU has 32 in any case.
	Width int
	// Memory is how many bytes of buffers and heaps the device has; 0 is no limit.
	Memory int64
	// Stall is how long the GPU waits for an event that nobody signals before the command
	// buffer fails; 0 is 5 s.
	Stall time.Duration
	// Limit is how long a kernel may compute before it is stopped and its command buffer
	// fails; 0 is one minute.
	Limit time.Duration
}

// Report is what a stand-in has seen.
type Report struct {
	violations []string
	live       map[string]int
	noPool     int
}

// Violations are what was done against the rules, in order: none in a program that is
// right.
func (r *Report) Violations() []string { return r.violations }

// Live is how many objects of each class there are, of those that have some.
func (r *Report) Live() map[string]int { return r.live }

// NoPool is how many objects were autoreleased while no pool was there to release them.
func (r *Report) NoPool() int { return r.noPool }
