package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// NotFinite is the error that names the kernel with the first NaN or infinity of a step.
type NotFinite struct {
	Value float64
	Index int // flat, in the result
	Type  graph.Type
}

func (e *NotFinite) Error() string {
	return fmt.Sprintf("made %v at element %d of %s from finite arguments", e.Value, e.Index, e.Type)
}

// finite runs an instruction and returns a NotFinite error if it made a NaN or an
// infinity of finite arguments. It runs a fused instruction part by part on whole
// arrays, so that the error names the part that a plan without fusion would name.
func (r *rank) finite(ctx context.Context, in *lowering.Instr, g collective.Group) error {
	if len(in.Chain) > 0 {
		return r.finiteParts(ctx, in)
	}
	return r.sound(ctx, in, g, r.exec)
}

// execute runs an instruction, as rank.exec does.
type execute = func(context.Context, *lowering.Instr, collective.Group) error

// finiteWhole returns run with a check of the instruction as a whole. Fused instructions
// on a device are checked as a whole too, because nobody sees their parts.
func (r *rank) finiteWhole(run execute) execute {
	return func(ctx context.Context, in *lowering.Instr, g collective.Group) error {
		return r.sound(ctx, in, g, run)
	}
}

func (r *rank) sound(ctx context.Context, in *lowering.Instr, g collective.Group, run execute) error {
	sound := true // checked before the arguments are overwritten
	for _, b := range in.In {
		if k, _ := firstNonFinite(r.seen(in, b)); k >= 0 {
			sound = false
		}
	}
	if err := run(ctx, in, g); err != nil || !sound {
		return err
	}
	for _, b := range in.Out {
		if k, x := firstNonFinite(r.seen(in, b)); k >= 0 {
			return &NotFinite{x, k, r.bufs[b].Type}
		}
	}
	return nil
}

// finiteParts gives every part new memory, because a result may share memory with an
// argument that a later part reads.
func (r *rank) finiteParts(ctx context.Context, in *lowering.Instr) error {
	kept := map[int]array.Array{}
	made := map[int]array.Array{} // by root buffer
	defer func() {
		for b, a := range kept {
			r.bufs[b] = a
		}
	}()
	for k := range in.Chain {
		part := &in.Chain[k]
		for _, b := range part.Out {
			made[b] = array.New(r.plan.Bufs[b].Type)
		}
		for _, b := range slices.Concat(part.In, part.Out) {
			for root := b; ; root = r.plan.Bufs[root].Of {
				if a, ok := made[root]; ok {
					if _, ok := kept[b]; !ok {
						kept[b] = r.bufs[b]
					}
					r.bufs[b] = array.Over(r.plan.Bufs[b].Type, a.Bytes())
					break
				}
				if r.plan.Bufs[root].Storage != lowering.Alias {
					break
				}
			}
		}
		if err := r.finite(ctx, part, nil); err != nil {
			return &exec.LinkError{Link: k, Err: err}
		}
	}
	for _, b := range in.Out {
		copy(kept[b].Bytes(), made[b].Bytes())
	}
	return nil
}

func firstNonFinite(a array.Array) (int, float64) {
	bad := func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
	if a.Type.DType.IsBlock() {
		a = a.As(graph.F32)
	}
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
