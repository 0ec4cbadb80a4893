package primitives

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// position returns the index, in a value of type t with placement s, of element `flat` of a
// rank's part, for messages. In ragged rows it is the index in the rank's part.
func position(a *exec.Args, s sharding.Spec, t graph.Type, flat int) []int {
	idx, part := s.Box(a.Mesh, a.Rank, t)
	for d := len(idx) - 1; d >= 0; d-- {
		n := part.Shape[d]
		idx[d] += flat % n
		flat /= n
	}
	return idx
}

// Primitives with an argument of indices have the method BadIndex. It returns the error for an
// index that is not below n. The index is element flat of the rank's part of that argument, which has
// type t and placement s. a has the mesh and the rank. Devices that find such an index call it.

func (embeddingOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, n int) error {
	return idError(a, s, t, flat, id, 0, n, "id")
}

func (embeddingGradOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, n int) error {
	return idError(a, s, t, flat, id, 0, n, "id")
}

func (crossEntropyOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, label int32, n int) error {
	return idError(a, s, t, flat, label, IgnoredLabel, n, "label")
}

func (crossEntropyGradOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, label int32, n int) error {
	return idError(a, s, t, flat, label, IgnoredLabel, n, "label")
}

func (attentionOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, length int32, n int) error {
	return idError(a, s, t, flat, length, 0, n, "length")
}

func (attentionGradOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, length int32, n int) error {
	return idError(a, s, t, flat, length, 0, n, "length")
}

func (cacheUpdateOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, start int32, n int) error {
	return idError(a, s, t, flat, start, 0, n, "start")
}

func (gatherOp) BadIndex(_ *exec.Args, _ sharding.Spec, _ graph.Type, flat int, index int32, n int) error {
	return rangeError(index, flat, n)
}

func (scatterAddOp) BadIndex(_ *exec.Args, _ sharding.Spec, _ graph.Type, flat int, index int32, n int) error {
	return rangeError(index, flat, n)
}

func (p takeAlongAxisOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, index int32, n int) error {
	_, part := s.Box(a.Mesh, a.Rank, t)
	return axisError(part, p.Axis, flat, index, n)
}

func (p addAlongAxisOp) BadIndex(a *exec.Args, s sharding.Spec, t graph.Type, flat int, index int32, n int) error {
	_, part := s.Box(a.Mesh, a.Rank, t)
	return axisError(part, p.Axis, flat, index, n)
}

// idError returns the error for an id below lo or not below n.
func idError(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, lo, n int, what string) error {
	if lo >= n {
		return fmt.Errorf("%s %d at %v, but the table is empty", what, id, position(a, s, t, flat))
	}
	return fmt.Errorf("%s %d at %v, want %d to %d", what, id, position(a, s, t, flat), lo, n-1)
}

// checkIDs runs k if all elements of ids, a rank's part of a value of type t with placement s,
// are at least lo and below n. Otherwise it returns an error.
func checkIDs(a *exec.Args, s sharding.Spec, t graph.Type, ids array.Array, lo, n int, what string, k exec.Kernel) error {
	x := data[int32](ids)
	bad := slices.IndexFunc(x, func(id int32) bool { return int(id) < lo || int(id) >= n })
	if bad >= 0 {
		return idError(a, s, t, bad, x[bad], lo, n, what)
	}
	return k(a)
}
