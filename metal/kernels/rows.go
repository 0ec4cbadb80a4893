package kernels

import "github.com/gomoe/gomoe/graph"

// teamRoom is the threadgroup memory, in bytes, for exchanging data between the threads of a row:
// one number for each of 32 simdgroups.
const teamRoom = 32 * 4

// team returns the number of threads working on a row of n elements. Short rows have few, because a
// single simdgroup needs no memory for summing. The number depends on n alone.
func team(n int) int {
	if n <= 1024 {
		return 32
	}
	return 256
}

// lines are the lines of a value along an axis, as taken by kernels of rows. inner is the distance
// between adjacent elements of a line.
type lines struct{ count, n, inner int }

// linesOf returns the lines of a type along an axis.
func linesOf(t graph.Type, axis int) lines {
	outer, n, inner := t.Around(axis)
	return lines{outer * inner, n, inner}
}

// raggedness returns the fields taken by row_kind of rows.metal for a value with the given number
// of rows, and the argument with the counts. If there are no counts, the argument is a placeholder.
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
