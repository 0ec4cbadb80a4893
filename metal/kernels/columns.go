package kernels

// As in columns.metal: the rows of a chunk, and the threads of a column.
const columnRows, columnTeams = 256, 8

// columnSums returns the launches summing a function of rows of n elements over the rows. The Metal
// function computes the sums of each chunk into scratch memory; args are its first arguments. Then
// sum_chunks adds the chunks' sums into result out.
func (in *Instr) columnSums(file, function string, args []Arg, rows, n, scratch, out int, eps float64) []Launch {
	suffix := in.Results[out].Type.DType.String()
	chunks := (rows + columnRows - 1) / columnRows
	ragged, zones := in.raggedness(rows)
	fields := append([]any{rows, n, chunks}, ragged...)
	sums := Launch{
		Source: Source{File: file}, Function: function, Groups: [3]int{(n + 31) / 32, chunks, 1}, Threads: [3]int{32, columnTeams, 1},
		Args: append(append([]Arg{}, args...), Scratch(scratch), zones, Params(append(fields, eps)...)),
	}
	add := Launch{
		Source: Source{File: file}, Function: "sum_chunks_" + suffix, Groups: [3]int{(n + 255) / 256, 1, 1}, Threads: [3]int{256, 1, 1},
		Args: []Arg{Scratch(scratch), Out(out), Params(fields...)},
	}
	return []Launch{sums, add}
}

// columnScratch returns the scratch memory of columnSums in bytes.
func columnScratch(rows, n int) int { return max((rows+columnRows-1)/columnRows*n, 1) * 4 }
