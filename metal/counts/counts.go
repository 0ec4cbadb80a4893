// Package counts describes work on a GPU, and a lower bound on its time. The emulated GPU counts bytes
// of each kind of memory, products of matrices, arithmetic, dispatches, barriers, commits and waits.
// [GPU.Time] divides the counts by the peak rates of Apple's GPUs: a roofline, assuming that
// everything but the bottleneck is hidden.
package counts

// Counts is the work of dispatches. Bytes are counted as threads request them, except where noted: 32
// threads reading the same number count it 32 times.
type Counts struct {
	Device, Constant, Threadgroup Traffic
	// Tables is the number of bytes read from the source's own constant arrays.
	Tables int64
	// Buffers is the traffic of each buffer, indexed by argument; for several dispatches, the sum of
	// the buffers with the same index.
	Buffers [31]Traffic `json:"-"`
	// Products16 and Products32 are the multiply-adds of simdgroup matrices, by the size of their
	// larger operand's elements in bits; a matrix operation has 512.
	Products16, Products32 int64
	// ProductsTensor are the multiply-adds of tensor operations with 16-bit operands. An operation
	// counts as loading each element of its operands from threadgroup memory once: how often
	// simdgroups load it depends on the implementation.
	ProductsTensor int64
	// Operations are the threads' arithmetic instructions, on numbers of any type. A vector
	// instruction counts once per element, and a function such as exp counts once.
	Operations int64
	// SIMDOperations are operations synchronizing a simdgroup: sums, shuffles and barriers.
	SIMDOperations int64
	Barriers       int64 // of threads
	Dispatches     int64
	Threadgroups   int64
}

// Traffic counts bytes of one kind of memory. Read counts each byte of a buffer once per threadgroup,
// a lower bound on the bytes reaching a core's cache; Once counts each byte once per dispatch, a lower
// bound on the bytes read from memory. Both are 0 for threadgroup memory.
type Traffic struct{ Loaded, Read, Once, Written int64 }

// Add adds the work of other dispatches.
func (c *Counts) Add(o Counts) { c.add(o, 1) }

func (c *Counts) add(o Counts, times int64) {
	c.Device.add(o.Device, times)
	c.Constant.add(o.Constant, times)
	c.Threadgroup.add(o.Threadgroup, times)
	for i := range c.Buffers {
		c.Buffers[i].add(o.Buffers[i], times)
	}
	c.Tables += times * o.Tables
	c.Products16 += times * o.Products16
	c.Products32 += times * o.Products32
	c.ProductsTensor += times * o.ProductsTensor
	c.Operations += times * o.Operations
	c.SIMDOperations += times * o.SIMDOperations
	c.Barriers += times * o.Barriers
	c.Dispatches += times * o.Dispatches
	c.Threadgroups += times * o.Threadgroups
}

// Add adds other traffic.
func (t *Traffic) Add(o Traffic) { t.add(o, 1) }

func (t *Traffic) add(o Traffic, times int64) {
	t.Loaded += times * o.Loaded
	t.Read += times * o.Read
	t.Once += times * o.Once
	t.Written += times * o.Written
}

// Products returns the multiply-adds of matrices and tensors.
func (c Counts) Products() int64 { return c.Products16 + c.Products32 + c.ProductsTensor }

// Device is the work of a device on behalf of a program.
type Device struct {
	Dispatches  int64
	Barriers    int64 // between dispatches of a concurrent encoder
	Commits     int64 // of command buffers
	Waits       int64 // of the host, for command buffers to complete
	DebugGroups int64
	NotResident int64 // buffers of dispatches that are in no residency set
	// Kernels is the work of the kernels, without counts per buffer. For a device that does not count,
	// it has only the numbers of dispatches and threadgroups.
	Kernels Counts
}

// Sub returns the work of a device since it had counted o.
func (d Device) Sub(o Device) Device {
	d.Kernels.add(o.Kernels, -1)
	d.Dispatches -= o.Dispatches
	d.Barriers -= o.Barriers
	d.Commits -= o.Commits
	d.Waits -= o.Waits
	d.DebugGroups -= o.DebugGroups
	d.NotResident -= o.NotResident
	return d
}
