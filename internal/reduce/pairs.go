package reduce

import "github.com/gomoe/gomoe/internal/kernel/vector"

// foldPairs is fold for Pairs. dst may be the first of srcs.
func foldPairs[E float64 | float32](a *Accumulator, srcs [][]byte, dst []byte) []byte {
	out := dst
	if !isAligned(dst) {
		out = Words(a.total[:])[:len(dst)]
	}
	a.pairs(srcs, out, 0, addBlocks[E])
	return out
}

// pairs sets dst to the sum of two or more srcs. It reads the first of them before
// writing dst. depth is the number of sums being formed.
func (a *Accumulator) pairs(srcs [][]byte, dst []byte, depth int, add func(a *Accumulator, dst, x, y []byte)) {
	half := 1
	for 2*half < len(srcs) {
		half *= 2
	}
	x, y := srcs[0], srcs[half]
	if half > 1 {
		a.pairs(srcs[:half], dst, depth, add)
		x = dst
	}
	if rest := srcs[half:]; len(rest) > 1 {
		for len(a.halves) <= depth {
			a.halves = append(a.halves, Words(make([]uint64, BlockBytes/8)))
		}
		y = a.halves[depth][:len(dst)]
		a.pairs(rest, y, depth+1, add)
	}
	add(a, dst, x, y)
}

// addBlocks sets dst to x + y.
func addBlocks[E float64 | float32](a *Accumulator, dst, x, y []byte) {
	if !isAligned(x) {
		copy(dst, x)
		x = dst
	}
	vector.Add(elements[E](dst), elements[E](x), elements[E](a.aligned(y)))
}
