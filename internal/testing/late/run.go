package late

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/runtime"
)

// run runs a segment, returning its first error. As on a device, instructions after a
// failed one run as well.
func (q *queue) run(s segment) error {
	var first error
	for _, e := range s.work {
		err := q.instruction(e)
		q.device.count(func(u *Uses) { u.Done++ })
		if err == nil && q.device.Fail != nil {
			err = q.device.Fail(q.rank, e.i)
		}
		if err != nil && first == nil {
			first = &runtime.QueueError{Index: e.i, Err: err}
		}
	}
	return first
}

// instruction runs an instruction like the host's ranks. It first spoils memory that the
// instruction writes and does not read.
func (q *queue) instruction(e encoded) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("late: internal error: %v\n%s", p, debug.Stack())
		}
	}()
	in := &q.plan.Instrs[e.i]
	for _, b := range touched(in) {
		if !q.device.sees(e.bufs[b].Bytes()) {
			return fmt.Errorf("%w any more", unseen(q.plan, e.i, b))
		}
	}
	read := func(b int) bool {
		return slices.ContainsFunc(touched(&lowering.Instr{In: in.In, Zones: in.Zones}), func(r int) bool { return q.plan.Root(r) == q.plan.Root(b) })
	}
	for _, b := range in.Out {
		if !read(b) {
			spoil(e.bufs[b].Bytes())
		}
	}
	a := exec.Args{Mesh: q.plan.Mesh, Rank: q.rank, Threads: 1}
	for _, b := range in.In {
		a.In = append(a.In, q.used(in, e, b))
	}
	for _, b := range in.Out {
		a.Out = append(a.Out, q.used(in, e, b))
	}
	a.Separate(in.Indexed, in.Kept)
	if err := in.Kernel(&a); err != nil {
		return err
	}
	for k, b := range in.Out {
		if in.Zones >= 0 && q.plan.Bufs[b].Spec.Ragged != nil {
			fill(a.Out[k], array.Data[int32](e.bufs[in.Zones]), in.Align)
		}
	}
	return nil
}

// used returns buffer b. If its rows are ragged, it ends with the last expert's zone.
func (q *queue) used(in *lowering.Instr, e encoded, b int) array.Array {
	x := e.bufs[b]
	if in.Zones < 0 || q.plan.Bufs[b].Spec.Ragged == nil {
		return x
	}
	rows := 0
	for _, n := range array.Data[int32](e.bufs[in.Zones]) {
		rows += up(int(n), in.Align)
	}
	t := graph.Type{DType: x.Type.DType, Shape: slices.Clone(x.Type.Shape)}
	t.Shape[0] = rows
	return array.Over(t, x.Bytes())
}

// fill sets the rows of experts' zones that are not in use to 0.
func fill(a array.Array, counts []int32, align int) {
	at := 0
	for _, n := range counts {
		end := at + up(int(n), align)
		clear(a.Rows(at+int(n), end).Bytes())
		at = end
	}
}

func up(n, align int) int {
	if align > 1 {
		return (n + align - 1) / align * align
	}
	return n
}
