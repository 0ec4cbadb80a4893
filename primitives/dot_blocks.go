package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/blocks"
	"github.com/gomoe/gomoe/internal/work"
)

// dotBlocks returns the kernel of a product with weights in blocks, which are argument
// number `weights`. Their dimensions are `batch` batch dimensions, then free ones, then
// the contracted one. dims are the dimensions of the other argument, whose rows are
// rounded to int8.
func dotBlocks(weights, batch int, dims operandDims) exec.Kernel {
	return func(a *exec.Args) error {
		w, x, z := a.In[weights], inType(a, a.In[1-weights], graph.F32), a.Out[0]
		if z.Type.DType != graph.F32 {
			z = room(a, z.Type.With(graph.F32))
		}
		d, shape := w.Type.DType, w.Type.Shape
		k, batches := shape[len(shape)-1], 1
		for _, n := range shape[:batch] {
			batches *= n
		}
		n := 1 // rows of weights per batch index
		for _, s := range shape[batch : len(shape)-1] {
			n *= s
		}
		o := operandOf(a, x, dims)
		rows := roundedOperand(a, d, &o, k)
		y, m, size := data[float32](z), o.rows, blocks.RowBytes(d, k)
		yrs, ycs := n, 1
		if weights == 0 {
			yrs, ycs = 1, m
		}
		if len(y) > 0 {
			row := len(w.Bytes()) / (batches * n)
			multiply := func(b, i0, i1, j0, j1 int) {
				if i0 < i1 && j0 < j1 {
					blocks.Multiply(d, i1-i0, j1-j0, k, rows[(b*m+i0)*size:], w.Bytes()[(b*n+j0)*row:], w.Bytes()[(b*n+j1)*row:], y[b*m*n+i0*yrs+j0*ycs:], yrs, ycs)
				}
			}
			// The work is cut between groups of four rows of weights, so that each row
			// is read once, and between panels of 32 where there are many rows of x.
			units, together := (n+3)/4, 1
			if m > 1 {
				together = 8
			}
			work.Steal(a, batches*units, 1+quantGrain/(4*(1+k)*(2+m)), together, func(_, lo, hi int) {
				for b := lo / units; b*units < hi; b++ {
					multiply(b, 0, m, 4*max(lo-b*units, 0), min(4*min(hi-b*units, units), n))
				}
			})
		}
		if z.Type.DType != a.Out[0].Type.DType {
			return convert(a, a.Out[0], z)
		}
		return nil
	}
}

// roundedOperand returns the rows of all batch indices, rounded.
func roundedOperand(a *exec.Args, d graph.DType, o *operand, k int) []byte {
	x := data[float32](o.array)
	size := blocks.RowBytes(d, k)
	total := len(o.start) * o.rows
	rows := lined(a, total*size)
	a.Parallel(total, 1+dotGrain/(1+k), func(lo, hi int) {
		if o.colStride == 1 && o.rowStride == k && len(o.start) == 1 {
			blocks.Round(d, k, rows[lo*size:hi*size], x[lo*k:hi*k])
			return
		}
		var line []float32
		for i := lo; i < hi; i++ {
			at := o.start[i/o.rows] + i%o.rows*o.rowStride
			from := x[min(at, len(x)):]
			if o.colStride != 1 && k > 0 {
				if line == nil {
					line = make([]float32, k)
				}
				for p := range line {
					line[p] = from[p*o.colStride]
				}
				from = line
			}
			blocks.Round(d, k, rows[i*size:(i+1)*size], from[:k])
		}
	})
	return rows
}
