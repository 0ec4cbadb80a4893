package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Float is an element type that kernels compute in.
type Float interface{ float32 | float64 }

// inFloat returns the kernel that runs f32 or f64 by the element type of the
// first float array among results and arguments. Arrays of bf16 and f16 are
// widened to f32 before and rounded once after.
func inFloat(f32, f64 lowering.Kernel) lowering.Kernel {
	return func(a *lowering.Args) error {
		switch floatType(a) {
		case graph.F64:
			return f64(a)
		case graph.F32:
			if !narrow(a) {
				return f32(a)
			}
		}
		return widened(a, f32)
	}
}

// ofFloat is inFloat for a kernel whose result has element type d, when some
// arguments are f64 whatever that is.
func ofFloat(d graph.DType, f32, f64 lowering.Kernel) lowering.Kernel {
	switch d {
	case graph.F64:
		return f64
	case graph.F32:
		return f32
	}
	return func(a *lowering.Args) error { return widened(a, f32) }
}

// floatType returns the widest float type among a's arrays.
func floatType(a *lowering.Args) graph.DType {
	d := graph.NoDType
	for _, list := range [2][]array.Array{a.Out, a.In} {
		for _, x := range list {
			if x.Type.DType.IsFloat() {
				d = max(d, x.Type.DType)
			}
		}
	}
	return d
}

func narrow(a *lowering.Args) bool {
	for _, list := range [2][]array.Array{a.Out, a.In} {
		for _, x := range list {
			if x.Type.DType == graph.BF16 || x.Type.DType == graph.F16 {
				return true
			}
		}
	}
	return false
}

func widened(a *lowering.Args, k lowering.Kernel) error {
	w := *a
	w.In, w.Out = wide(a.In, true), wide(a.Out, false)
	if err := k(&w); err != nil {
		return err
	}
	for i, x := range a.Out {
		if x.Type.DType == graph.BF16 || x.Type.DType == graph.F16 {
			if err := array.Convert(x, w.Out[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func wide(xs []array.Array, copied bool) []array.Array {
	out := make([]array.Array, len(xs))
	for i, x := range xs {
		out[i] = x
		if x.Type.DType == graph.BF16 || x.Type.DType == graph.F16 {
			if copied {
				out[i] = x.As(graph.F32)
			} else {
				out[i] = array.New(x.Type.With(graph.F32))
			}
		}
	}
	return out
}

// data is array.Data, shorter.
func data[E array.Elem](a array.Array) []E { return array.Data[E](a) }
