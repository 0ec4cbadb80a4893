package primitives

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
)

// A tile of decoded weights has at most decodedDeep numbers along the contracted dimension and
// decodedWide along the other one. decodedDeep is the block size of gemm.Multiply, so the bits are the
// same as when multiplying with decoded weights.
const decodedDeep, decodedWide = 256, 128

// decodedRows is the number of rows gathered at a time, if rows are read through an index: 64 KiB of
// f32 for rows as deep as a tile.
const decodedRows = 64

// decodedScratch is a thread's scratch memory for a tile, in numbers: the tile, followed by two numbers for
// every 32 numbers of it.
const decodedScratch = decodedDeep * decodedWide * 17 / 16

// decoder sets tile to rows [r0, r1) and columns [c0, c1) of matrix e, row by row.
type decoder[T float] interface {
	decode(tile []T, e, r0, r1, c0, c1 int)
}

// decodedProduct multiplies rows with quantised matrices, decoding them to type T one tile at
// a time.
type decodedProduct[T float] struct {
	x, y      []T
	indexed   *indexedRows // the rows, if they are read through an index; otherwise nil
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
// product with matrix e. room has scratchLen numbers.
func (p *decodedProduct[T]) multiply(room []T, e, start, count, from, to int) {
	deep, wide := p.deep(), p.wide()
	tile, gathered := room[:decodedScratch], room[decodedScratch:]
	var x []T
	if p.indexed == nil {
		x = kernel.From(p.x, start*deep)
	}
	y := p.y[start*wide:]
	for j := from; j < to; {
		end := min((j/decodedWide+1)*decodedWide, to)
		if deep == 0 {
			for i := range count {
				clear(y[i*wide+j : i*wide+end])
			}
		}
		for at := 0; at < deep; at += decodedDeep {
			some := min(decodedDeep, deep-at)
			brs, bcs := end-j, 1
			if p.transpose {
				brs, bcs = 1, some
				p.w.decode(tile, e, j, end, at, at+some)
			} else {
				p.w.decode(tile, e, at, at+some, j, end)
			}
			if p.indexed == nil {
				gemm.Multiply(count, end-j, some, x[at:], deep, 1, tile, brs, bcs, y[j:], wide, at > 0)
				continue
			}
			for i := 0; i < count; i += decodedRows {
				rows := min(decodedRows, count-i)
				for r := range rows {
					widenRow(gathered[r*some:][:some], p.indexed.part(start+i+r, at, some), p.indexed.d)
				}
				gemm.Multiply(rows, end-j, some, gathered, some, 1, tile, brs, bcs, y[i*wide+j:], wide, at > 0)
			}
		}
		j = end
	}
}

// scratchLen returns the scratch memory of multiply, in numbers: a tile, and gathered rows.
func (p *decodedProduct[T]) scratchLen() int {
	if p.indexed == nil {
		return decodedScratch
	}
	return decodedScratch + decodedDeep*decodedRows
}

// multiplyAll multiplies all rows with one matrix.
func (p *decodedProduct[T]) multiplyAll(a *exec.Args) {
	rows, _ := rowsOf(a.In[0].Type)
	counts := exec.Make[int32](a, 1)
	counts[0] = int32(rows)
	p.multiplyExperts(a, counts, 0)
}

// multiplyExperts multiplies rows in expert order: expert e has counts[e] rows. The work is cut
// between weights, so each is decoded once.
func (p *decodedProduct[T]) multiplyExperts(a *exec.Args, counts []int32, align int) {
	if p.wide() == 0 {
		return
	}
	z := weightRowWork{counts, align, p.wide()}
	exec.Share(a, z.work(), 1+decodedGrain/(1+p.deep()), decodedPieces[T]{p, z, exec.RoomsOf[T](a, p.scratchLen())})
}

// decodedGrain is the number of decoded weights, counted by weightRowWork, worth a goroutine: about 100
// microseconds.
const decodedGrain = 1 << 17

type decodedPieces[T float] struct {
	p     *decodedProduct[T]
	z     weightRowWork
	rooms *exec.Rooms[T]
}

func (s *decodedPieces[T]) Piece(lo, hi int) {
	room := s.rooms.Take()
	s.z.each(lo, hi, func(e, start, count, from, to int) { s.p.multiply(room, e, start, count, from, to) })
}

// decoderOf returns a decoder of the matrices among the arguments, and their rows and columns.
type decoderOf[T float] func(a *exec.Args) (w decoder[T], n, k int)

// decodedKernel returns the kernel multiplying rows, argument 0, with one quantised matrix or, if align is set, with a
// matrix for each expert. The experts' counts are then the last argument.
func decodedKernel(f32 decoderOf[float32], f64 decoderOf[float64], transpose bool, align *int) exec.Kernel {
	return func(a *exec.Args) error {
		if a.Out[0].Type.DType == graph.F64 {
			return decodedResult(a, f64, transpose, align)
		}
		return decodedResult(a, f32, transpose, align)
	}
}

func decodedResult[T float](a *exec.Args, of decoderOf[T], transpose bool, align *int) error {
	d := a.Out[0].Type.DType // of the rows, too
	return resultIn(a, array.DTypeOf[T](), func(a *exec.Args) error {
		p := exec.New[decodedProduct[T]](a)
		w, n, k := of(a)
		*p = decodedProduct[T]{y: data[T](a.Out[0]), w: w, n: n, k: k, transpose: transpose}
		if rows, ok := indexedRowsOf(a, 0, d); ok {
			p.indexed = exec.New[indexedRows](a)
			*p.indexed = rows
		} else {
			p.x = data[T](inType(a, a.In[0], array.DTypeOf[T]()))
		}
		if align == nil {
			p.multiplyAll(a)
		} else {
			p.multiplyExperts(a, data[int32](a.In[len(a.In)-1]), *align) // the engine sets rows between zones to zero
		}
		return nil
	})
}
