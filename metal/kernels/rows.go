package kernels

import "github.com/gomoe/gomoe/graph"

// teamRoom is the threadgroup memory, in bytes, through which the threads of a row exchange
// data: one number for each of 32 simdgroups.
const teamRoom = 32 * 4

// team returns how many threads work on a row of n elements. Short rows have few, because a
// single simdgroup needs no memory to sum. The number depends on n alone.
func team(n int) int {
	if n <= 1024 {
		return 32
	}
	return 256
}

// lines are the lines of a value along an axis, as kernels of rows take them. inner is the
// distance between neighbouring elements of a line.
type lines struct{ count, n, inner int }

// linesOf returns the lines of a type along an axis.
func linesOf(t graph.Type, axis int) lines {
	outer, n, inner := t.Around(axis)
	return lines{outer * inner, n, inner}
}

// raggedness returns the fields that row_kind of rows.metal takes for a value with that many
// rows, and the argument with the counts. If there are no counts, the argument is a
// placeholder.
func (in *Instr) raggedness(rows int) (fields []any, zones Arg) {
	if !in.Ragged() {
		return []any{0, 1, 1}, Params(0)
	}
	first := 1
	for _, o := range append(append([]Operand{}, in.Results...), in.Args...) {
		if o.Ragged {
			first = max(o.Type.Shape[0], 1)
			break
		}
	}
	return []any{in.Experts(), in.Align, max(rows/first, 1)}, Zones()
}
