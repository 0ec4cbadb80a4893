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

// NotFiniteError names the kernel that computed the first NaN or infinity of a step.
type NotFiniteError struct {
	Value float64
	Index int // flat, in the result
	Type  graph.Type
}

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("made %v at element %d of %s from finite arguments", e.Value, e.Index, e.Type)
}

// finite runs an instruction and returns a NotFiniteError if it computes a NaN or an
// infinity from finite arguments. It runs a fused instruction part by part on whole
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
// on a device are checked as a whole too, because their parts are not visible.
func (r *rank) finiteWhole(run execute) execute {
	return func(ctx context.Context, in *lowering.Instr, g collective.Group) error {
		return r.sound(ctx, in, g, run)
	}
}

// sound runs an instruction, checking its arguments and results. The results of an
// exchange depend on the arguments of all its ranks, so these first tell each other
// whether their arguments are finite.
func (r *rank) sound(ctx context.Context, in *lowering.Instr, g collective.Group, run execute) error {
	// Without arguments it is a constant requested by the program, such as the -Inf of a
	// mask.
	sound := len(in.In) > 0 // checked before the arguments are overwritten
	for _, b := range in.In {
		if k, _ := r.firstNonFinite(in, b); k >= 0 {
			sound = false
		}
	}
	if in.Communicates() {
		var err error
		if sound, err = allSound(ctx, g, in, sound); err != nil {
			return err
		}
	}
	back := r.clearPacked(in)
	err := run(ctx, in, g)
	defer back()
	if err != nil || !sound {
		return err
	}
	for _, b := range in.Out {
		if k, x := r.firstNonFinite(in, b); k >= 0 {
			return &NotFiniteError{x, k, r.bufs[b].Type}
		}
	}
	return nil
}

// allSound reports whether every rank of the group passes sound, before the exchange in.
func allSound(ctx context.Context, g collective.Group, in *lowering.Instr, sound bool) (bool, error) {
	mine := []byte{1}
	if sound {
		mine[0] = 0
	}
	all := make([]byte, g.Size())
	c := collective.Call{Op: "all_gather", DType: graph.U8, Bytes: 1, Pos: in.Pos}
	if err := g.AllGather(ctx, c, all, mine); err != nil {
		return false, err
	}
	return !slices.Contains(all, 1), nil
}

// clearPacked zeroes packed results, so that unwritten bytes are not taken for numbers. A
// result sharing an argument's memory gets temporary memory; back copies it to its place.
func (r *rank) clearPacked(in *lowering.Instr) (back func()) {
	type moved struct {
		buf int
		to  array.Array
	}
	var apart []moved
	for _, b := range in.Out {
		if r.plan.Bufs[b].Packed == nil {
			continue
		}
		shared := func(arg int) bool { return r.plan.Root(arg) == r.plan.Root(b) }
		if !slices.ContainsFunc(in.In, shared) {
			clear(r.bufs[b].Bytes())
		} else if in.Within {
			apart = append(apart, moved{b, r.bufs[b]})
			r.bufs[b] = array.New(r.plan.Bufs[b].Type)
		}
	}
	return func() {
		for _, m := range apart {
			copy(m.to.Bytes(), r.bufs[m.buf].Bytes())
			r.bufs[m.buf] = m.to
		}
	}
}

// finiteParts gives every part new memory, because a result may share memory with an
// argument of a later part.
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

// firstNonFinite returns the index and the value of the first NaN or infinity in the
// elements of buffer b that the instruction reads or writes. The index is negative if
// there is none. In packed rows it counts bytes.
func (r *rank) firstNonFinite(in *lowering.Instr, b int) (int, float64) {
	packed := r.plan.Bufs[b].Packed
	if packed == nil {
		return firstNonFinite(r.seen(in, b).Dense())
	}
	mem := r.bufs[b].Bytes()
	for at := 0; at < len(mem); {
		for _, t := range packed {
			n := int(t.Bytes())
			entry := array.New(t) // packed numbers are not aligned
			copy(entry.Bytes(), mem[at:at+n])
			if k, x := firstNonFinite(entry); k >= 0 {
				return at + k*t.DType.Size(), x
			}
			at += n
		}
	}
	return -1, 0
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
	case graph.F8_E4M3:
		for i, x := range array.Data[array.E4M3](a) {
			if bad(float64(x.Float32())) {
				return i, float64(x.Float32())
			}
		}
	case graph.F8_E5M2:
		for i, x := range array.Data[array.E5M2](a) {
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
