package kernels

import "github.com/gomoe/gomoe/graph"

// teamRoom is the threadgroup memory in bytes of what the threads of a row tell each
// other: a number for each of 32 simdgroups.
const teamRoom = 32 * 4

// team returns how many threads do a row of n elements: few where it is short, since
// then a simdgroup needs no memory to sum. It depends on the row alone.
func team(n int) int {
	if n <= 1024 {
		return 32
	}
	return 256
}

// lines are the lines along an axis of a value, `inner` elements from one to the next
// of a line, as kernels of rows take them.
type lines struct{ count, n, inner int }

// linesOf returns the lines of a type along an axis.
func linesOf(t graph.Type, axis int) lines {
	outer, n, inner := around(t, axis)
	return lines{outer * inner, n, inner}
}

// raggedness are the fields that row_kind of rows.metal takes, for a value with that many rows of a kernel, and
// the argument with the counts: anything where there are none.
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
