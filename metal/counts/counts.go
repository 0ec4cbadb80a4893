// Package counts says what work on a GPU is, and how long a GPU takes for it at the least. The
// emulated GPU counts: bytes of each kind of memory, products of matrices, arithmetic, dispatches,
// barriers, commits and waits. [GPU.Time] divides them by what Apple's GPUs can do: a roofline, the
// time of a kernel in which everything that does not bound it is hidden.
package counts

// Counts is what dispatches do. Bytes are those that threads ask for, except where something
// else is said: 32 threads that read one number ask for it 32 times.
type Counts struct {
	Device, Constant, Threadgroup Traffic
	// Tables are bytes read of the source's own constant arrays.
	Tables int64
	// Buffers are the traffic of each buffer, by the index of the argument; of several dispatches
	// those with the same index together.
	Buffers [31]Traffic `json:"-"`
	// Products16 and Products32 are the multiply-adds of simdgroup matrices, by the size of their
	// larger operand's elements in bits; a matrix operation has 512.
	Products16, Products32 int64
	// ProductsTensor are the multiply-adds of tensor operations, whose operands have 16 bits. Of
	// threadgroup memory an operation loads each element of its operands once: how often simdgroups do
	// so is the implementation's.
	ProductsTensor int64
	// Operations are the threads' arithmetic instructions, on numbers of any type. One on a vector
	// counts once per element, and a function such as exp counts once.
	Operations int64
	// SIMDOperations are those for which a simdgroup meets: sums, shuffles and barriers.
	SIMDOperations int64
	Barriers       int64 // of threads
	Dispatches     int64
	Threadgroups   int64
}

// Traffic is bytes of one kind of memory. Read counts each byte of a buffer once per threadgroup,
// which is what comes from behind a core's cache at the least; Once counts each byte once per
// dispatch, which is what comes from memory at the least. Both are 0 for threadgroup memory.
type Traffic struct{ Loaded, Read, Once, Written int64 }

// Add adds what other dispatches do.
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

// Device is what a program has made a device do.
type Device struct {
	Dispatches  int64
	Barriers    int64 // between dispatches of a concurrent encoder
	Commits     int64 // of command buffers
	Waits       int64 // of the host, for command buffers to complete
	DebugGroups int64
	NotResident int64 // buffers of dispatches that no residency set has
	// Kernels is what the kernels did. Of a device that does not count it has only how many
	// dispatches and threadgroups there were. It does not say which buffer it was.
	Kernels Counts
}

// Sub returns what a device did since it had counted o.
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
