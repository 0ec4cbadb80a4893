package runtime

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// NotFinite says which kernel made the first NaN or infinity of a step.
type NotFinite struct {
	Value float64
	Index int // flat, in the result
	Type  graph.Type
}

func (e *NotFinite) Error() string {
	return fmt.Sprintf("made %v at element %d of %s from finite arguments", e.Value, e.Index, e.Type)
}

// finiteArgs reports whether all arguments of instruction i are finite.
func (r *rank) finiteArgs(i int) bool {
	for _, b := range r.plan.Instrs[i].In {
		if k, _ := firstNonFinite(r.seen(&r.plan.Instrs[i], b)); k >= 0 {
			return false
		}
	}
	return true
}

// finite reports a result of instruction i with a NaN or an infinity.
func (r *rank) finite(i int) error {
	for _, b := range r.plan.Instrs[i].Out {
		if k, x := firstNonFinite(r.seen(&r.plan.Instrs[i], b)); k >= 0 {
			return &NotFinite{x, k, r.bufs[b].Type}
		}
	}
	return nil
}

func firstNonFinite(a array.Array) (int, float64) {
	bad := func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
	switch a.Type.DType {
	case graph.F64:
		for i, x := range array.Data[float64](a) {
			if bad(x) {
				return i, x
			}
		}
	case graph.F32:
		for i, x := range array.Data[float32](a) {
			if bad(float64(x)) {
				return i, float64(x)
			}
		}
	case graph.BF16:
		for i, x := range array.Data[array.Brain](a) {
			if bad(float64(x.Float32())) {
				return i, float64(x.Float32())
			}
		}
	case graph.F16:
		for i, x := range array.Data[array.Half](a) {
			if bad(float64(x.Float32())) {
				return i, float64(x.Float32())
			}
		}
	}
	return -1, 0
}
