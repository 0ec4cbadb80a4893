package standin

import "time"

// Order is the order in which the emulated GPU runs what a real GPU runs at once: threads,
// simdgroups, threadgroups, and the dispatches of a concurrent encoder. Kernels are tested in
// all orders.
type Order int

// Orders.
const (
	Forward Order = iota
	Reverse
	Random // depends only on Options.Seed
)

// Options say how a stand-in behaves. The zero value suits tests that need nothing special.
type Options struct {
	Order Order
	Seed  uint64 // seed of Random

	// Leader makes lane 0 compute the matrix products of a simdgroup, which is ten times as
	// fast.
	Leader bool
	// Count makes kernels count what they do. It implies Leader.
	Count bool
	// Lint makes the compiler check the address spaces of sources too.
	Lint bool
	// Eager makes command buffers run when they are committed, up to the first event that
	// nobody has signalled.
	Eager bool
	// Absent makes the system one without a device.
	Absent bool
	// System is the major version of macOS; 0 is 15.
	System int
	// Family is the greatest n of MTLGPUFamilyApple<n> that the GPU supports; 0 is 9, and
	// -1 is none.
	Family int
	// Width is how many threads of a simdgroup pipelines say that they have; 0 is 32. The
	// emulated GPU has 32 in any case.
	Width int
	// Edit changes sources before they are compiled, if it is not nil.
	Edit func(source string) string
	// Memory is how many bytes the buffers and heaps of the device may have together; 0 is
	// no limit.
	Memory int64
	// Stall is how long the GPU waits for an event that nobody signals, before it fails the
	// command buffer; 0 is 5 s.
	Stall time.Duration
	// Limit is how long a kernel may compute before it is stopped and its command buffer
	// fails; 0 is one minute.
	Limit time.Duration
}

// Report says what has happened in a stand-in.
type Report struct {
	violations []string
	live       map[string]int
	noPool     int
}

// Violations returns what was done against the rules, in order. A correct program has none.
func (r *Report) Violations() []string { return r.violations }

// Live returns the number of living objects by class, without classes that have none.
func (r *Report) Live() map[string]int { return r.live }

// NoPool returns how many objects were autoreleased while no pool was there to release them.
func (r *Report) NoPool() int { return r.noPool }
