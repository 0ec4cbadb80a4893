package kernels

// Program is what a device does for one instruction: launches, one after another, each
// of which sees all that those before have written.
type Program struct {
	Launches []Launch
	// Scratch are the sizes in bytes of memory that the launches share, which holds
	// anything before the first.
	Scratch []int
	// Fault explains a record that a launch has written to its Status argument; nil
	// where there is none. The error says what the host kernel's would.
	Fault func(record [StatusLen]int32) error
	// Tolerance is how far results may be from the host kernel's, if that depends on more
	// than the Kernel; nil is the Kernel's.
	Tolerance *Tolerance
}

// StatusLen is the length of a status record, i32, which holds StatusClear before the
// first launch of each step. A kernel that finds a mistake in its arguments brings
// element 0 down to the place of it, by an atomic minimum, so that the first is reported.
const StatusLen = 4

// StatusClear is what each element of a status record is while there is no mistake.
const StatusClear int32 = 1<<31 - 1

// Launch is one dispatch of a kernel.
type Launch struct {
	Source   Source
	Function string
	// Constants are the values of function constants, by index: bool, int32, uint32 or
	// float32.
	Constants map[int]any
	// Args are the kernel's buffers, from index 0 on.
	Args []Arg
	// Memory are the lengths in bytes of threadgroup memory arguments, from index 0 on,
	// multiples of 16.
	Memory []int
	// Groups is the grid in threadgroups, Threads the size of one. Without any group
	// there is no launch.
	Groups, Threads [3]int
}

// Source is the text that has a kernel: a file of this package, or text that was made.
type Source struct {
	File string // such as rope.metal
	Made string // functions, in a library with those of all other made texts of a plan; begins without includes
}

// Arg is a buffer of a launch.
type Arg struct {
	Kind  ArgKind
	Index int    // of In, Out or Scratch
	Bytes []byte // at most 4096, which the launch copies
}

// ArgKind says what an Arg is.
type ArgKind uint8

const (
	OfIn      ArgKind = iota // argument Index of the instruction
	OfOut                    // result Index
	OfZones                  // the rows in use of each local expert
	OfScratch                // memory Index of Program.Scratch
	OfStatus                 // the instruction's status record
	OfBytes                  // Bytes
)

// In is argument i of the instruction.
func In(i int) Arg { return Arg{Kind: OfIn, Index: i} }

// Out is result i of the instruction.
func Out(i int) Arg { return Arg{Kind: OfOut, Index: i} }

// Zones are the rows in use of each local expert, i32[experts].
func Zones() Arg { return Arg{Kind: OfZones} }

// Scratch is memory i of Program.Scratch.
func Scratch(i int) Arg { return Arg{Kind: OfScratch, Index: i} }

// Status is the instruction's status record.
func Status() Arg { return Arg{Kind: OfStatus} }
