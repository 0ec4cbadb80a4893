package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering/ops"
)

// Kernel serves instructions of one kind.
type Kernel struct {
	Name string // of the concept; also the name of its files
	// Serves lists the operations that the kernel serves; ops.Fused stands for all chains.
	// Primitives lists the primitives that they come from.
	Serves     []ops.Op
	Primitives []string
	Doc        string // what it does, in one line
	// Functions lists the functions of the source that launches use, with their limits.
	Functions []Function
	// Stack is the index of the operand that is a stack of experts' matrices, 0 if there is none. Operands are the arguments, followed by the
	// results, without indices (see lowering.Instr.Indexed). The kernel counts elements with 32 bits: the
	// elements of one matrix of the stack, and all elements of every other operand.
	Stack int
	// Stacks is how many operands from Stack on are such stacks; 0 counts as 1.
	Stacks int
	// Through: it can read the rows of arguments through an index.
	Through bool
	// Build returns what the device does for an instruction of one of these operations. If the
	// error is a RefusalError, the host runs the instruction.
	Build func(in *Instr) (*Program, error)
	// Tolerance is the accepted difference from the host kernel's results, unless the Program has a Tolerance of its own.
	Tolerance Tolerance
}

// Function is one kernel function of a source.
type Function struct {
	Name string
	// Threads is the largest threadgroup for launching the function, and Memory its threadgroup memory in bytes.
	Threads, Memory int
}

// Tolerance bounds the difference of a result from the host kernel's result. For each element it is Absolute + Relative · |want| + OfMax · the
// largest |want| of the result. Elements of f16 and bf16 may differ by one more unit in the last place, because a small difference before rounding
// can become one. If all fields are zero, the bits must be equal; any NaN equals any NaN.
type Tolerance struct {
	Absolute, Relative, OfMax float64
	Why                       string // the reason why results differ
}

// RefusalError is the error for an instruction that a kernel does not serve, giving the reason.
type RefusalError struct{ Why string }

func (r *RefusalError) Error() string { return r.Why }

// refuse returns a RefusalError.
func refuse(format string, args ...any) error { return &RefusalError{fmt.Sprintf(format, args...)} }

// Build returns the device's program for an instruction, and the kernel serving it. If the error is a RefusalError, which includes a missing kernel,
// the host runs the instruction.
func Build(in *Instr) (p *Program, by *Kernel, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case wide:
			p, err = nil, refuse("has the number %d, which does not fit into the 4 bytes of a parameter", int(r))
		default:
			panic(r)
		}
	}()
	if in.Communicates() {
		return nil, nil, refuse("exchanges data with other ranks")
	}
	if in.Keeps || len(in.Kept) > 0 {
		return nil, nil, refuse("works on copies, which the host's plans have")
	}
	by, ok := serving()[in.op()]
	if !ok {
		return nil, nil, refuse("there is no kernel for it")
	}
	if len(in.Indexed) > 0 && !by.Through {
		return nil, by, refuse("reads rows through an index")
	}
	for i, o := range slices.Concat(in.Args[:len(in.Args)-len(in.Indexed)], in.Results) {
		n := o.Type.Len()
		if by.Stack > 0 && i >= by.Stack && i < by.Stack+max(by.Stacks, 1) && len(o.Type.Shape) == 3 && n > 0 {
			n /= o.Type.Shape[0]
		}
		if n > math.MaxInt32 {
			return nil, by, refuse("%s has more elements than 32 bits count", o.Type)
		}
	}
	if p, err = by.Build(in); err != nil {
		var r *RefusalError
		if !errors.As(err, &r) {
			err = fmt.Errorf("kernels: %s: %w", in.Name(), err)
		}
		return nil, by, err
	}
	return p, by, nil
}

// serving maps an operation to the first kernel of All that serves it.
var serving = sync.OnceValue(func() map[ops.Op]*Kernel {
	by := map[ops.Op]*Kernel{}
	for _, k := range slices.Backward(All()) {
		for _, op := range k.Serves {
			by[op] = &k
		}
	}
	return by
})

// float returns the function suffix for a float type: f32, f16 or bf16.
func float(d graph.DType) (string, error) {
	switch d {
	case graph.F32, graph.F16, graph.BF16:
		return d.String(), nil
	}
	return "", refuse("no kernel for elements of %s, only of f32, f16 and bf16", d)
}
