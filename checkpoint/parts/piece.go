package parts

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// piece is a part of an array in an open file.
type piece struct {
	tensor.Tensor
	start []int
	sums  []uint32

	mu    sync.Mutex
	right []bool // blocks with verified checksums
}

// newPiece checks that a part lies within its array.
func newPiece(p Part, t tensor.Tensor) (*piece, error) {
	if len(p.Start) != len(p.Shape) || len(t.Type.Shape) != len(p.Shape) {
		return nil, fmt.Errorf("%v at %v of %v: want as many dimensions", t.Type.Shape, p.Start, p.Shape)
	}
	for d, at := range p.Start {
		if at < 0 || at > p.Shape[d] || t.Type.Shape[d] > p.Shape[d]-at {
			return nil, fmt.Errorf("%v at %v: does not lie in %v", t.Type.Shape, p.Start, p.Shape)
		}
	}
	if blocks := (len(t.Mem) + Block - 1) / Block; len(p.Sums) != blocks {
		return nil, fmt.Errorf("%d checksums, want %d", len(p.Sums), blocks)
	}
	return &piece{Tensor: t, start: p.Start, sums: p.Sums, right: make([]bool, len(p.Sums))}, nil
}

// copyTo copies the elements shared by the piece and the box beginning at start, and returns their number.
func (p *piece) copyTo(to array.Array, start []int) (elements int, err error) {
	at, n, both := overlap(p.start, p.Type.Shape, start, to.Type.Shape)
	if !both {
		return 0, nil
	}
	size := p.Type.DType.Size()
	from, into := minus(at, p.start), minus(at, start)
	last := slices.Clone(from)
	for d := range last {
		last[d] += n[d] - 1
	}
	if err := p.sound(offset(from, p.Type.Shape)*size, (offset(last, p.Type.Shape)+1)*size); err != nil {
		return 0, err
	}
	array.CopyBox(to, into, array.Over(p.Type, p.Mem), from, n)
	return graph.T(p.Type.DType, n...).Len(), nil
}

// sound verifies the checksums of the blocks containing the bytes from lo to hi.
func (p *piece) sound(lo, hi int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := lo / Block; b*Block < hi; b++ {
		if p.right[b] {
			continue
		}
		mem := p.Mem[b*Block : min((b+1)*Block, len(p.Mem))]
		if got := Sum(mem); got != p.sums[b] {
			return fmt.Errorf("%s is damaged: tensor %s: the checksum of %d bytes from byte %d of the file on is %08x, want %08x",
				filepath.Base(p.File), quoted.Name(p.Name), len(mem), p.Offset+int64(b*Block), got, p.sums[b])
		}
		p.right[b] = true
	}
	return nil
}

// overlap returns the intersection of two boxes. both is false if it is empty.
func overlap(aStart, aShape, bStart, bShape []int) (start, shape []int, both bool) {
	start, shape = make([]int, len(aShape)), make([]int, len(aShape))
	for d := range aShape {
		start[d] = max(aStart[d], bStart[d])
		shape[d] = min(aStart[d]+aShape[d], bStart[d]+bShape[d]) - start[d]
		if shape[d] <= 0 {
			return nil, nil, false
		}
	}
	return start, shape, true
}

// minus returns a - b for every dimension.
func minus(a, b []int) []int {
	c := make([]int, len(a))
	for d := range a {
		c[d] = a[d] - b[d]
	}
	return c
}

// offset returns the row-major index of a position.
func offset(at, shape []int) int {
	n := 0
	for d, x := range at {
		n = n*shape[d] + x
	}
	return n
}

// inside returns the bytes of a box of the array if they are contiguous within the piece, and their offset.
func (p *piece) inside(start, shape []int) (mem []byte, from int, ok bool) {
	at, n, both := overlap(p.start, p.Type.Shape, start, shape)
	if !both || !slices.Equal(n, shape) {
		return nil, 0, false
	}
	first := 0 // the first dimension with more than one index
	for first < len(n) && n[first] == 1 {
		first++
	}
	for d := first + 1; d < len(n); d++ {
		if n[d] != p.Type.Shape[d] {
			return nil, 0, false
		}
	}
	size := p.Type.DType.Size()
	from = offset(minus(at, p.start), p.Type.Shape) * size
	to := from + graph.T(p.Type.DType, n...).Len()*size
	return p.Mem[from:to:to], from, true
}
