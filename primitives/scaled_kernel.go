package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
)

// scaledDeep is how much of the summed dimension is decoded at a time: the block of
// gemm.Multiply, so that sums have the bits of a product with decoded weights.
const scaledDeep = 256

// scaledProduct multiplies rows with matrices of 8-bit floats in blocks that have
// scales. A tile of weights is decoded to numbers of type T, multiplied by their scale and
// rounded once, and then multiplied.
type scaledProduct[T float] struct {
	x, scales, y []T
	w            []byte
	values       [256]T
	n, k         int  // rows and columns of a matrix
	transpose    bool // rows have k elements and results n
}

// newScaledProduct returns the product of a's arguments: rows, weights and scales.
func newScaledProduct[T float](a *exec.Args, transpose bool) *scaledProduct[T] {
	w, rank := a.In[1], a.In[1].Type.Rank()
	p := exec.New[scaledProduct[T]](a)
	p.x, p.w, p.y = data[T](a.In[0]), w.Bytes(), data[T](a.Out[0])
	p.scales = data[T](inType(a, a.In[2], array.DTypeOf[T]()))
	p.n, p.k, p.transpose = w.Type.Shape[rank-2], w.Type.Shape[rank-1], transpose
	for i := range p.values {
		v := array.E4M3(i).Float32()
		if w.Type.DType == graph.F8_E5M2 {
			v = array.E5M2(i).Float32()
		}
		p.values[i] = T(v)
	}
	return p
}

// deep and wide return the number of elements of a row and of a result.
func (p *scaledProduct[T]) deep() int {
	if p.transpose {
		return p.k
	}
	return p.n
}

func (p *scaledProduct[T]) wide() int { return p.n + p.k - p.deep() }

// multiply sets elements [from, to) of `count` results, from result start on, to the
// product with matrix e. tile has room for scaledDeep times scaledBlock numbers.
func (p *scaledProduct[T]) multiply(tile []T, e, start, count, from, to int) {
	deep, wide := p.deep(), p.wide()
	x, y := kernel.From(p.x, start*deep), p.y[start*wide:]
	for j := from; j < to; {
		end := min((j/scaledBlock+1)*scaledBlock, to)
		if deep == 0 {
			for i := range count {
				clear(y[i*wide+j : i*wide+end])
			}
		}
		for at := 0; at < deep; at += scaledDeep {
			some := min(scaledDeep, deep-at)
			if p.transpose {
				p.decode(tile, e, j, end, at, at+some)
				gemm.Multiply(count, end-j, some, x[at:], deep, 1, tile, 1, some, y[j:], wide, at > 0)
			} else {
				p.decode(tile, e, at, at+some, j, end)
				gemm.Multiply(count, end-j, some, x[at:], deep, 1, tile, end-j, 1, y[j:], wide, at > 0)
			}
		}
		j = end
	}
}

// decode sets tile to rows [r0, r1) and columns [c0, c1) of matrix e, row by row.
func (p *scaledProduct[T]) decode(tile []T, e, r0, r1, c0, c1 int) {
	width, blocks := c1-c0, (p.k+scaledBlock-1)/scaledBlock
	scales := p.scales[e*((p.n+scaledBlock-1)/scaledBlock)*blocks:]
	w := p.w[e*p.n*p.k:]
	var scaled [256]T // the values of the codes in one block
	for rb := r0 / scaledBlock; rb*scaledBlock < r1; rb++ {
		for cb := c0 / scaledBlock; cb*scaledBlock < c1; cb++ {
			s := scales[rb*blocks+cb]
			for i, v := range p.values {
				scaled[i] = v * s
			}
			from, to := max(c0, cb*scaledBlock), min(c1, (cb+1)*scaledBlock)
			for r := max(r0, rb*scaledBlock); r < min(r1, (rb+1)*scaledBlock); r++ {
				dst := tile[(r-r0)*width+from-c0:][:to-from]
				for i, code := range w[r*p.k+from : r*p.k+to] {
					dst[i] = scaled[code]
				}
			}
		}
	}
}

// scaledMatMul is the kernel of ScaledMatMulOp: all rows have one matrix.
func scaledMatMul[T float](transpose bool) exec.Kernel {
	return func(a *exec.Args) error {
		rows, _ := rowsOf(a.In[0].Type)
		counts := exec.Make[int32](a, 1)
		counts[0] = int32(rows)
		scaledShares(a, newScaledProduct[T](a, transpose), counts, 0)
		return nil
	}
}

// groupedScaledMatMul is the kernel of GroupedScaledMatMulOp. The last argument has the
// number of rows of each expert.
func groupedScaledMatMul[T float](transpose bool, align int) exec.Kernel {
	return func(a *exec.Args) error {
		scaledShares(a, newScaledProduct[T](a, transpose), data[int32](a.In[3]), align)
		return nil
	}
}

// scaledShares makes the products of rows in zones. The work is cut between weights, so
// that each is decoded once.
func scaledShares[T float](a *exec.Args, p *scaledProduct[T], counts []int32, align int) {
	if p.wide() == 0 {
		return
	}
	z := weightZones{counts, align, p.wide()}
	exec.Share(a, z.work(), 1+scaledGrain/(1+p.deep()), scaledPieces[T]{p, z, exec.RoomsOf[T](a, scaledDeep*scaledBlock)})
}

// scaledGrain is how many decoded weights, counted as weightZones counts them, are worth a
// goroutine: some 100 microseconds.
const scaledGrain = 1 << 17

type scaledPieces[T float] struct {
	p     *scaledProduct[T]
	z     weightZones
	rooms *exec.Rooms[T]
}

func (s *scaledPieces[T]) Piece(lo, hi int) {
	tile := s.rooms.Take()
	s.z.each(lo, hi, func(e, start, count, from, to int) { s.p.multiply(tile, e, start, count, from, to) })
}
