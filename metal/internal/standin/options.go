package standin

import "time"

// Order is the order of work that a real GPU runs concurrently: threads, simdgroups, threadgroups,
// and the dispatches of a concurrent encoder. Kernels are tested in all orders.
type Order int

// Orders.
const (
	Forward Order = iota
	Reverse
	Random // depends only on Options.Seed
)

// Options configure a stand-in. The zero value suits tests without special needs.
type Options struct {
	Order Order
	Seed  uint64 // seed of Random

	// Leader makes lane 0 compute the matrix products of a simdgroup, which is ten times as fast.
	Leader bool
	// Count makes kernels count their work. It implies Leader.
	Count bool
	// Lint makes the compiler check the address spaces of sources too.
	Lint bool
	// Eager makes command buffers run when they are committed, up to the first unsignalled event.
	Eager bool
	// Absent makes the system one without a device.
	Absent bool
	// System is the major version of macOS; 0 is 15.
	System int
	// Family is the greatest n of a supported MTLGPUFamilyApple<n>; 0 is 9, and -1 is none.
	Family int
	// Width is the number of threads per simdgroup reported by pipelines; 0 is 32. The emulated GPU
	// has 32 in any case.
	Width int
	// Edit, if not nil, changes sources before compiling them.
	Edit func(source string) string
	// Memory is the limit on the bytes of all buffers and heaps of the device; 0 is no limit.
	Memory int64
	// Stall is the time that the GPU waits for an unsignalled event before failing the command
	// buffer; 0 is 5 s.
	Stall time.Duration
	// Limit is the time after which a running kernel is stopped and its command buffer fails; 0 is
	// one minute.
	Limit time.Duration
}

// Report holds the events in a stand-in.
type Report struct {
	violations []string
	live       map[string]int
	noPool     int
}

// Violations returns the violations of Metal's rules, in order. A correct program has none.
func (r *Report) Violations() []string { return r.violations }

// Live returns the number of living objects by class, without classes that have none.
func (r *Report) Live() map[string]int { return r.live }

// NoPool returns the number of objects autoreleased outside of every pool.
func (r *Report) NoPool() int { return r.noPool }
