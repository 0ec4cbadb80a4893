package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/graph"
)

// A Group is 128 weights in the form used by products: integers, with a scale and an
// offset for every 32. Weight i is
//
//	Scale[i/32]·int8(Q[i]) + Offset[i/32]
//
// rounded to f32 after the product and after the sum.
type Group struct {
	Q             [128]byte // int8
	Scale, Offset [4]float32
	_             [32]byte // a group has whole cache lines, and the layout of a rounded row
}

// HasGroups reports whether blocks of type d can be written as groups. The types q8_0,
// q4_k, q6_k, q2_k, iq2_xxs and mxfp4 cannot, because their products do not use groups.
func HasGroups(d graph.DType) bool { return d >= graph.Q4_0 && d.IsBlock() }

// Unpack sets groups to the weights encoded by the blocks of type d. Groups after the
// last block become zeros. Unpack panics if there are too few groups for the blocks, or
// if d has no groups.
func Unpack(groups []Group, d graph.DType, blocks []byte) {
	n, size := d.Block()
	if elements := len(blocks) / size * n; len(groups) != (elements+127)/128 || len(blocks)%size != 0 {
		panic(fmt.Sprintf("quant: %d bytes of %s for %d groups of 128 elements", len(blocks), d, len(groups)))
	}
	if n == 32 {
		for len(blocks) > 0 {
			g := &groups[0]
			for i := range 4 {
				if len(blocks) == 0 {
					clear(g.Q[32*i:])
					clear(g.Scale[i:])
					clear(g.Offset[i:])
					break
				}
				g.Scale[i], g.Offset[i] = unpack((*[32]byte)(g.Q[32*i:]), d, blocks[:size])
				blocks = blocks[size:]
			}
			groups = groups[1:]
		}
		return
	}
	for ; len(blocks) > 0; blocks = blocks[size:] {
		unpackSuper((*[2]Group)(groups), d, blocks[:size])
		groups = groups[2:]
	}
}

// unpack sets q to the integers of a block of 32, returning its scale and offset.
func unpack(q *[32]byte, d graph.DType, b []byte) (scale, offset float32) {
	switch d {
	case graph.Q4_0:
		return unpackQ4(q, b)
	case graph.Q4_1:
		return unpackQ41(q, b)
	case graph.Q5_0:
		return unpackQ5(q, b)
	case graph.Q5_1:
		return unpackQ51(q, b)
	case graph.IQ4_NL:
		return unpackIQ4NL(q, b)
	}
	panic(fmt.Sprintf("quant: blocks of %s have no groups", d))
}

// unpackSuper is unpack for a block of 256.
func unpackSuper(g *[2]Group, d graph.DType, b []byte) {
	switch d {
	case graph.Q3_K:
		unpackQ3K(g, b)
	case graph.Q5_K:
		unpackQ5K(g, b)
	case graph.IQ3_XXS:
		unpackIQ3(g, b)
	case graph.IQ4_XS:
		unpackIQ4XS(g, b)
	default:
		panic(fmt.Sprintf("quant: blocks of %s have no groups", d))
	}
}

// decodeGroup sets y to the elements of a block of 32.
func decodeGroup(y []float32, d graph.DType, b []byte) {
	var q [32]byte
	scale, offset := unpack(&q, d, b)
	numbers(y, &q, scale, offset)
}

// decodeGroups sets y to the elements of a block of 256.
func decodeGroups(y []float32, d graph.DType, b []byte) {
	var g [2]Group
	unpackSuper(&g, d, b)
	for i := range 8 {
		part := &g[i/4]
		numbers(y[32*i:][:32], (*[32]byte)(part.Q[32*(i%4):]), part.Scale[i%4], part.Offset[i%4])
	}
}

// numbers sets y to scale·q + offset.
func numbers(y []float32, q *[32]byte, scale, offset float32) {
	for i, v := range q {
		y[i] = float32(scale*float32(int8(v))) + offset
	}
}

// noOffset returns -0, the identity of addition: adding 0 would turn -0 into 0.
func noOffset() float32 { return math.Float32frombits(1 << 31) }

// These functions work on 8 bytes of a word at a time.

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

func word(b []byte) uint64       { return binary.LittleEndian.Uint64(b) }
func setWord(b []byte, x uint64) { binary.LittleEndian.PutUint64(b, x) }

// minus returns a - b for each byte.
func minus(a, b uint64) uint64 { return (a | highs) - b&^highs ^ (a^^b)&highs }

// bitBytes returns 8 bytes: byte i is 1 if bit i of b is set, and 0 otherwise.
func bitBytes(b byte) uint64 {
	bit := uint64(b) * ones & 0x8040201008040201
	return (bit + 0x7f*ones) >> 7 & ones
}
