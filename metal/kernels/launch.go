package kernels

import (
	"slices"
	"strings"
)

// Program is a device's work for one instruction: launches running one after another. Each sees all
// writes of earlier launches.
type Program struct {
	Launches []Launch
	// Scratch are the sizes in bytes of the scratch buffers shared by the launches. Their contents
	// are undefined before the first launch.
	Scratch []int
	// Fault explains a record written by a launch to its Status argument. It is nil if no launch
	// has one. The error is the same as the host kernel's.
	Fault func(record [StatusLen]int32) error
	// Tolerance is the accepted difference from the host kernel's results, if it depends on more
	// than the Kernel. Nil means the Kernel's Tolerance.
	Tolerance *Tolerance
}

// Tensors reports whether launches use tensor operations.
func (p *Program) Tensors() bool {
	return slices.ContainsFunc(p.Launches, func(l Launch) bool { return strings.Contains(l.Function, tensorTile) })
}

// StatusLen is the length of a status record, i32[StatusLen]. Every element is StatusClear before
// the first launch of each step. A kernel finding a mistake in its arguments lowers element 0 to
// the position of the mistake, by an atomic minimum, so that the first mistake is reported.
const StatusLen = 4

// StatusClear is the value of each element of a status record without a mistake.
const StatusClear int32 = 1<<31 - 1

// Launch is one dispatch of a kernel.
type Launch struct {
	Source   Source
	Function string
	// Constants are the values of function constants by index. A value is a bool, int32,
	// uint32 or float32.
	Constants map[int]any
	// Args are the kernel's buffers, in the order of their indices, from 0.
	Args []Arg
	// Memory are the lengths in bytes of the threadgroup memory arguments, from index 0.
	// They are multiples of 16.
	Memory []int
	// Groups is the grid in threadgroups, and Threads the size of a threadgroup. If Groups has a
	// zero, nothing is launched.
	Groups, Threads [3]int
}

// Source is the text containing a kernel: a file of this package, or generated text.
type Source struct {
	File string // such as rope.metal
	Made string // generated functions, without #include lines; all generated texts of a plan become one library
}

// Arg is a buffer argument of a launch.
type Arg struct {
	Kind  ArgKind
	Index int    // of In, Out or Scratch
	Bytes []byte // at most 4096 bytes; the launch copies them
}

// ArgKind is the kind of an Arg.
type ArgKind uint8

const (
	OfIn      ArgKind = iota // argument Index of the instruction
	OfOut                    // result Index
	OfZones                  // the rows in use of each local expert
	OfScratch                // memory Index of Program.Scratch
	OfStatus                 // the instruction's status record
	OfBytes                  // Bytes
)

// In returns argument i of the instruction.
func In(i int) Arg { return Arg{Kind: OfIn, Index: i} }

// Out returns result i of the instruction.
func Out(i int) Arg { return Arg{Kind: OfOut, Index: i} }

// Zones returns the rows in use of each local expert, i32[experts].
func Zones() Arg { return Arg{Kind: OfZones} }

// Scratch returns memory i of Program.Scratch.
func Scratch(i int) Arg { return Arg{Kind: OfScratch, Index: i} }

// Status returns the instruction's status record.
func Status() Arg { return Arg{Kind: OfStatus} }
