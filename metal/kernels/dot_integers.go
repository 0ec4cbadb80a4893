package kernels

import "slices"

const (
	dotIntegersAxes    = 12 // as in dot_integers.metal
	dotIntegersThreads = 256
)

// dotIntegers serves products of i32 or u32. One thread computes each element of the result.
func dotIntegers(in *Instr, p dotParams) (*Program, error) {
	x, y, z := in.Args[0], in.Args[1], in.Results[0]
	for _, o := range []Operand{x, y} {
		if o.Type.DType != z.Type.DType {
			return nil, refuse("a product of %s and %s as %s, want one type of integers", x.Type.DType, y.Type.DType, z.Type.DType)
		}
	}
	if in.Ragged() {
		return nil, refuse("a product of experts' rows of %s", z.Type.DType)
	}
	if z.Type.Len() == 0 {
		return &Program{}, nil
	}
	a := dotAxesOf(p, x.Type.Shape, y.Type.Shape, z.Type.Shape)
	kept, summed := joined(slices.Concat(a.batch, a.x, a.y)), joined(a.sum)
	if n := max(len(kept), len(summed)); n > dotIntegersAxes {
		return nil, refuse("it has %d dimensions that no one stride describes, want at most %d", n, dotIntegersAxes)
	}
	ks, kstrides := sizes(kept, dotIntegersAxes)
	ss, sstrides := sizes(summed, dotIntegersAxes)
	return &Program{Launches: []Launch{{
		Source: Source{File: "dot_integers.metal"}, Function: "dot_integers",
		Args: []Arg{In(0), In(1), Out(0), Params(slices.Concat([]any{product(kept), product(summed)},
			ks, kstrides[0], kstrides[1], ss, sstrides[0], sstrides[1])...)},
		Groups:  [3]int{pieces(product(kept), dotIntegersThreads), 1, 1},
		Threads: [3]int{dotIntegersThreads, 1, 1},
	}}}, nil
}
