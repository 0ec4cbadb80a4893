package jaccl

import (
	"context"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// The operations' names in a Call. A Call of another name is an error, so that
// members that call different methods never take their calls for equal.
const (
	allSum        = "all_sum"
	allGather     = "all_gather"
	reduceScatter = "reduce_scatter"
	allToAll      = "all_to_all"
	barrier       = "barrier"
)

// AllSum implements lowering.Group. Integers wrap around. dst is src or does
// not overlap it.
func (m *member) AllSum(ctx context.Context, c lowering.Call, dst, src []byte) error {
	bad := m.named(c, allSum)
	if bad == nil {
		bad = m.summable(c, src)
	}
	switch {
	case bad != nil:
	case len(dst) != len(src):
		bad = argument(m.rank(), c, "dst of %d bytes and src of %d, want equal lengths", len(dst), len(src))
	case overlap(dst, src) && unsafe.SliceData(dst) != unsafe.SliceData(src):
		bad = argument(m.rank(), c, "a dst that overlaps a part of src, want the same buffer or separate ones")
	}
	return m.meet(ctx, post{call: c, dst: dst, src: src}, bad)
}

// AllGather implements lowering.Group. dst and src do not overlap.
func (m *member) AllGather(ctx context.Context, c lowering.Call, dst, src []byte) error {
	bad := m.named(c, allGather)
	switch {
	case bad != nil:
	case len(dst) != m.Size()*len(src):
		bad = argument(m.rank(), c, "dst of %d bytes and src of %d, want %d of dst for %d members", len(dst), len(src), m.Size()*len(src), m.Size())
	case overlap(dst, src):
		bad = argument(m.rank(), c, "a dst that overlaps src, want separate buffers")
	}
	return m.meet(ctx, post{call: c, dst: dst, src: src}, bad)
}

// ReduceScatter implements lowering.Group. dst and src do not overlap.
func (m *member) ReduceScatter(ctx context.Context, c lowering.Call, dst, src []byte) error {
	bad := m.named(c, reduceScatter)
	if bad == nil {
		bad = m.summable(c, dst)
	}
	switch {
	case bad != nil:
	case len(src) != m.Size()*len(dst):
		bad = argument(m.rank(), c, "dst of %d bytes and src of %d, want %d of src for %d members", len(dst), len(src), m.Size()*len(dst), m.Size())
	case overlap(dst, src):
		bad = argument(m.rank(), c, "a dst that overlaps src, want separate buffers")
	}
	return m.meet(ctx, post{call: c, dst: dst, src: src}, bad)
}

// AllToAll implements lowering.Group. No part of dst overlaps a part of src.
// The lengths are compared before any data moves.
func (m *member) AllToAll(ctx context.Context, c lowering.Call, dst, src [][]byte) error {
	bad := m.named(c, allToAll)
	if bad == nil && (len(dst) != m.Size() || len(src) != m.Size()) {
		bad = argument(m.rank(), c, "%d parts of dst and %d of src, want one for each of %d members", len(dst), len(src), m.Size())
	}
	for i, d := range dst {
		for k, s := range src {
			if bad == nil && overlap(d, s) {
				bad = argument(m.rank(), c, "part %d of dst overlapping part %d of src, want separate buffers", i, k)
			}
		}
	}
	return m.meet(ctx, post{call: c, dsts: dst, srcs: src}, bad)
}

// Barrier implements lowering.Group.
func (m *member) Barrier(ctx context.Context, c lowering.Call) error {
	return m.meet(ctx, post{call: c}, m.named(c, barrier))
}

func (m *member) named(c lowering.Call, op string) *failure {
	if c.Op != op {
		return argument(m.rank(), c, "the method of %s, want the method of its name", op)
	}
	return nil
}

// summable checks the element type and that a buffer holds whole elements.
func (m *member) summable(c lowering.Call, b []byte) *failure {
	switch {
	case !c.DType.IsInt() && !c.DType.IsFloat():
		return argument(m.rank(), c, "elements of %s, want a type that can be summed: %s to %s", c.DType, graph.U8, graph.F64)
	case len(b)%c.DType.Size() != 0:
		return argument(m.rank(), c, "a buffer of %d bytes, want whole elements of %d bytes", len(b), c.DType.Size())
	}
	return nil
}

// overlap reports whether two slices share a byte.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}
