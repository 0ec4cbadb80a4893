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

// NoRow returns the error for an id that names no row of the table, which has n rows. The
// id is element flat of a rank's part of the ids, which have type t and placement s.
// a has the mesh and the rank.
func (EmbeddingOp) NoRow(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, n int) error {
	return idError(a, s, t, flat, id, 0, n, "id")
}

// NoClass returns the error for a label that names none of n classes; see EmbeddingOp.NoRow.
func (CrossEntropyOp) NoClass(a *exec.Args, s sharding.Spec, t graph.Type, flat int, id int32, n int) error {
	return idError(a, s, t, flat, id, IgnoredLabel, n, "label")
}

// NoLength returns the error for a length of a sequence that is not one of 0 to room; see
// EmbeddingOp.NoRow.
func (AttentionOp) NoLength(a *exec.Args, s sharding.Spec, t graph.Type, flat int, length int32, room int) error {
	return idError(a, s, t, flat, length, 0, room+1, "length")
}

// NoStart returns the error for a start that is not one of 0 to last; see EmbeddingOp.NoRow.
func (CacheUpdateOp) NoStart(a *exec.Args, s sharding.Spec, t graph.Type, flat int, start int32, last int) error {
	return idError(a, s, t, flat, start, 0, last+1, "start")
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
