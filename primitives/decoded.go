package primitives

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
)

// A tile of decoded weights has at most decodedDeep numbers along the summed dimension,
// which is the block of gemm.Multiply, so that sums have the bits of a product with decoded
// weights; and at most decodedWide along the other one.
const decodedDeep, decodedWide = 256, 128

// decoder sets tile to rows [r0, r1) and columns [c0, c1) of matrix e, row by row.
type decoder[T float] interface {
	decode(tile []T, e, r0, r1, c0, c1 int)
}

// decodedProduct multiplies rows with matrices that are decoded to numbers of type T a tile
// at a time.
type decodedProduct[T float] struct {
	x, y      []T
	w         decoder[T]
	n, k      int  // rows and columns of a matrix
	transpose bool // rows have k elements and results n
}

// deep and wide return the number of elements of a row and of a result.
func (p *decodedProduct[T]) deep() int {
	if p.transpose {
		return p.k
	}
	return p.n
}

func (p *decodedProduct[T]) wide() int { return p.n + p.k - p.deep() }

// multiply sets elements [from, to) of `count` results, from result start on, to the
// product with matrix e. tile has room for decodedDeep times decodedWide numbers.
func (p *decodedProduct[T]) multiply(tile []T, e, start, count, from, to int) {
	deep, wide := p.deep(), p.wide()
	x, y := kernel.From(p.x, start*deep), p.y[start*wide:]
	for j := from; j < to; {
		end := min((j/decodedWide+1)*decodedWide, to)
		if deep == 0 {
			for i := range count {
				clear(y[i*wide+j : i*wide+end])
			}
		}
		for at := 0; at < deep; at += decodedDeep {
			some := min(decodedDeep, deep-at)
			if p.transpose {
				p.w.decode(tile, e, j, end, at, at+some)
				gemm.Multiply(count, end-j, some, x[at:], deep, 1, tile, 1, some, y[j:], wide, at > 0)
			} else {
				p.w.decode(tile, e, at, at+some, j, end)
				gemm.Multiply(count, end-j, some, x[at:], deep, 1, tile, end-j, 1, y[j:], wide, at > 0)
			}
		}
		j = end
	}
}

// all makes the product of all rows with one matrix.
func (p *decodedProduct[T]) all(a *exec.Args) {
	rows, _ := rowsOf(a.In[0].Type)
	counts := exec.Make[int32](a, 1)
	counts[0] = int32(rows)
	p.zones(a, counts, 0)
}

// zones makes the products of rows in zones: expert e has counts[e] rows. The work is cut
// between weights, so that each is decoded once.
func (p *decodedProduct[T]) zones(a *exec.Args, counts []int32, align int) {
	if p.wide() == 0 {
		return
	}
	z := weightZones{counts, align, p.wide()}
	exec.Share(a, z.work(), 1+decodedGrain/(1+p.deep()), decodedPieces[T]{p, z, exec.RoomsOf[T](a, decodedDeep*decodedWide)})
}

// decodedGrain is how many decoded weights, counted as weightZones counts them, are worth a
// goroutine: some 100 microseconds.
const decodedGrain = 1 << 17

type decodedPieces[T float] struct {
	p     *decodedProduct[T]
	z     weightZones
	rooms *exec.Rooms[T]
}

func (s *decodedPieces[T]) Piece(lo, hi int) {
	tile := s.rooms.Take()
	s.z.each(lo, hi, func(e, start, count, from, to int) { s.p.multiply(tile, e, start, count, from, to) })
}
