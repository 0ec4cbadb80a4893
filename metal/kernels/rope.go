package kernels

import (
	"math"

	"github.com/gomoe/gomoe/lowering/ops"
	"github.com/gomoe/gomoe/primitives"
)

// mostMagnitude is the largest RoPEOp.Magnitude, and its inverse the smallest, served by a kernel.
// Sines and cosines are multiplied by it, and have to stay normal floats.
const mostMagnitude = 1e30

func rope() Kernel {
	return Kernel{
		Name: "rope", Serves: []ops.Op{ops.Rope}, Primitives: []string{"rope"},
		Doc:       "pairs of elements turned by their token's position, a thread per pair. The host makes the table of angles (rope_angles), in f64",
		Functions: []Function{{Name: "rope_f32", Threads: 256}, {Name: "rope_f16", Threads: 256}, {Name: "rope_bf16", Threads: 256}},
		Build:     ropeProgram,
		Tolerance: Tolerance{OfMax: 3e-7, Why: "products in f32 of sines and cosines rounded to f32, the host's in f64"},
	}
}

func ropeProgram(in *Instr) (*Program, error) {
	p, ok := in.Prim.(primitives.RoPEOp)
	if !ok {
		return nil, refuse("%T is not rope", in.Prim)
	}
	x := in.Args[0].Type
	suffix, err := float(x.DType)
	if err != nil {
		return nil, err
	}
	if m := math.Abs(p.Magnitude); m != 0 && (m > mostMagnitude || m < 1/mostMagnitude) {
		return nil, refuse("magnitude=%v, which leaves no normal floats as sines and cosines", p.Magnitude)
	}
	tokens, heads, pairs, rows := x.Shape[0]*x.Shape[1], x.Shape[2], x.Shape[3]/2, x.Shape[1]
	angles := in.Args[1].Type
	if angles.Rank() == 4 { // each sequence has its own
		rows *= x.Shape[0]
	}
	turned, count := angles.Shape[angles.Rank()-1], tokens*heads*pairs
	sign := 1.0
	if p.Inverse {
		sign = -1
	}
	ragged, zones := in.raggedness(tokens)
	return program(Launch{
		Source: Source{File: "rope.metal"}, Function: "rope_" + suffix, Groups: [3]int{(count + 255) / 256, 1, 1}, Threads: [3]int{256, 1, 1},
		Args: []Arg{In(0), In(1), Out(0), zones, Params(append([]any{count, max(rows, 1), heads, pairs, turned, p.Interleaved, sign}, ragged...)...)},
	}), nil
}
