package kernels

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/graph"
)

// Fused is what Kernel.Serves calls instructions of several parts, whatever these are.
const Fused = "fused"

// Kernel serves instructions of one kind.
type Kernel struct {
	Name string // of the concept, and of its files
	// Serves are the names of the instructions, Fused for those of several parts, and
	// Primitives what they come from.
	Serves, Primitives []string
	Doc                string // what it does, in one line
	// Functions are those of the source that launches use, with what each takes.
	Functions []Function
	// Build returns what the device does for an instruction of one of these names. An
	// error that is a Refusal leaves the instruction to the host.
	Build func(in *Instr) (*Program, error)
	// Tolerance is how far results may be from the host kernel's, where the Program does
	// not say it.
	Tolerance Tolerance
}

// Function is a kernel of a source.
type Function struct {
	Name string
	// Threads is the largest threadgroup that it is launched with, and Memory its
	// threadgroup memory in bytes.
	Threads, Memory int
}

// Tolerance bounds the difference of a result from the host kernel's: for each element,
// Absolute + Relative · |want| + OfMax · the largest |want| of the result. Elements of f16
// and bf16 may be one unit in the last place farther off, which is where a small difference
// before rounding shows, unless all is zero: that is equal bits, with any NaN for a NaN.
type Tolerance struct {
	Absolute, Relative, OfMax float64
	Why                       string // what makes results differ
}

// Refusal is the error of an instruction that a kernel does not do: it says why.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

// refuse returns a Refusal.
func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }

// Build returns what the device does for an instruction. An error that is a Refusal,
// which also says that there is no kernel, leaves it to the host.
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
	for _, o := range append(append([]Operand{}, in.Args...), in.Results...) {
		if o.Type.Len() > math.MaxInt32 {
			return nil, nil, refuse("%s has more elements than 32 bits count", o.Type)
		}
	}
	kind := in.Name
	if len(in.Chain) > 0 {
		kind = Fused
	}
	by, ok := serving()[kind]
	if !ok {
		return nil, nil, refuse("there is no kernel for it")
	}
	if p, err = by.Build(in); err != nil {
		var r *Refusal
		if !errors.As(err, &r) {
			err = fmt.Errorf("kernels: %s: %w", in.Name, err)
		}
		return nil, by, err
	}
	return p, by, nil
}

// serving are the kernels by the names that they serve, the first of All for each.
var serving = sync.OnceValue(func() map[string]*Kernel {
	by := map[string]*Kernel{}
	for _, k := range slices.Backward(All()) {
		for _, name := range k.Serves {
			by[name] = &k
		}
	}
	return by
})

// float returns the suffix of functions for an element type: f32, f16 or bf16.
func float(d graph.DType) (string, error) {
	switch d {
	case graph.F32, graph.F16, graph.BF16:
		return d.String(), nil
	}
	return "", refuse("no kernel for elements of %s, only of f32, f16 and bf16", d)
}
