package snapshot

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// piece is a part of an array in an open file.
type piece struct {
	tensor.Tensor
	start []int
	sums  []uint32

	mu    sync.Mutex
	sound []bool // blocks whose checksum is right
}

// newPiece checks that a part lies in its array.
func newPiece(p part, t tensor.Tensor) (*piece, error) {
	if len(p.Start) != len(p.Shape) || len(t.Type.Shape) != len(p.Shape) {
		return nil, fmt.Errorf("%v at %v of %v: want as many dimensions", t.Type.Shape, p.Start, p.Shape)
	}
	for d, at := range p.Start {
		if at < 0 || at > p.Shape[d] || t.Type.Shape[d] > p.Shape[d]-at {
			return nil, fmt.Errorf("%v at %v: does not lie in %v", t.Type.Shape, p.Start, p.Shape)
		}
	}
	if blocks := (len(t.Mem) + block - 1) / block; len(p.Sums) != blocks {
		return nil, fmt.Errorf("%d checksums, want %d", len(p.Sums), blocks)
	}
	return &piece{Tensor: t, start: p.Start, sums: p.Sums, sound: make([]bool, len(p.Sums))}, nil
}

// copyTo copies what the piece has of the box that begins at start, and returns how many elements that are.
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
	if err := p.check(offset(from, p.Type.Shape)*size, (offset(last, p.Type.Shape)+1)*size); err != nil {
		return 0, err
	}
	array.CopyBox(to, into, array.Over(p.Type, p.Mem), from, n)
	return graph.T(p.Type.DType, n...).Len(), nil
}

// check compares the checksums of the blocks with the bytes from lo to hi.
func (p *piece) check(lo, hi int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := lo / block; b*block < hi; b++ {
		if p.sound[b] {
			continue
		}
		mem := p.Mem[b*block : min((b+1)*block, len(p.Mem))]
		if got := sum(mem); got != p.sums[b] {
			return fmt.Errorf("%s is damaged: tensor %q: the checksum of %d bytes from byte %d of the file on is %08x, want %08x",
				filepath.Base(p.File), p.Name, len(mem), p.Offset+int64(b*block), got, p.sums[b])
		}
		p.sound[b] = true
	}
	return nil
}

// overlap returns the box that two boxes have in common. both is false if it has no elements.
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

// offset returns how many elements lie before the element at a place.
func offset(at, shape []int) int {
	n := 0
	for d, x := range at {
		n = n*shape[d] + x
	}
	return n
}
