package random

import (
	"math"
	"unsafe"

	"github.com/gomoe/gomoe/array"
)

// Few is the best number of words of random bits for RoundBrain's room. That many stay in
// the first-level cache.
const Few = few / 2

// RoundBrain sets y to x rounded stochastically to bf16: up or down at random, with mean
// x. Element i is the upper half of the sum, as integers, of x[i] and 16 random bits: of
// the words Bits32 of the key, element offset+i of the flat array takes half (offset+i)
// mod 2 of word (offset+i)/2, the lower half first. So every element depends on the key
// and its index alone. Infinities and NaNs are kept. y and x have the same length; room
// is memory for at least one word.
func RoundBrain(y []array.Brain, x []float32, key [2]uint32, offset uint64, room []uint32) {
	roundBrain(selected(), y, x, key, offset, room)
}

func roundBrain(l *loops, y []array.Brain, x []float32, key [2]uint32, offset uint64, room []uint32) {
	const vector = 16 // elements that a loop in assembly takes at once
	for len(x) > 0 {
		odd := int(offset % 2)
		n := min(len(x), 2*len(room)-odd)
		words := room[:(odd+n+1)/2]
		bits32(l, words, key, offset/2)
		at := 0
		if odd == 1 {
			y[0], words, at = brain(x[0], words[0]>>16), words[1:], 1
		}
		if k := (n - at) &^ (vector - 1); k > 0 && l != nil && l.round != nil {
			l.round(k, (*uint16)(unsafe.Pointer(&y[at])), &x[at], &words[0])
			words, at = words[k/2:], at+k
		}
		for ; at < n; at += 2 {
			y[at] = brain(x[at], words[0]&0xffff)
			if at+1 < n {
				y[at+1] = brain(x[at+1], words[0]>>16)
			}
			words = words[1:]
		}
		y, x, offset = y[n:], x[n:], offset+uint64(n)
	}
}

// brain returns x plus r, below 2^16, units of its last bit, without the lower half.
func brain(x float32, r uint32) array.Brain {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return array.Brain(b>>16 | 0x40) // a quiet NaN
	}
	return array.Brain((b + r) >> 16)
}
