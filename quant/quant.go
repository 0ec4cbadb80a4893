package quant

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Types returns the element types in blocks.
func Types() []graph.DType {
	return []graph.DType{
		graph.Q8_0, graph.Q4_K, graph.Q6_K, graph.Q2_K, graph.IQ2_XXS, graph.MXFP4,
		graph.Q4_0, graph.Q4_1, graph.Q5_0, graph.Q5_1, graph.Q3_K, graph.Q5_K, graph.IQ3_XXS, graph.IQ4_NL, graph.IQ4_XS,
	}
}

// Dequantize sets dst to the elements encoded by the blocks of type d. It is an error if
// d is not a type in blocks, or if there are more or fewer blocks than dst needs.
//
// Products of factors are rounded to f32 from left to right, in the order of the table in
// the package comment.
func Dequantize(dst []float32, d graph.DType, blocks []byte) error {
	if err := check(d, len(dst), len(blocks)); err != nil {
		return err
	}
	n, size := d.Block()
	for i := 0; i < len(dst); i += n {
		decode(dst[i:i+n], d, blocks[i/n*size:][:size])
	}
	return nil
}

// Quantize sets blocks to blocks of type d that approximate src. For q8_0, mxfp4, q4_0,
// q4_1, q5_0 and q5_1 these are ggml's blocks: the largest element, or the range of the
// elements, gives the scale. For the other types a search over a few scales minimises the
// sum of squared errors. If src has a NaN or an infinity, all elements of its block
// become NaN, or infinite in mxfp4.
//
// Its errors are as for Dequantize.
func Quantize(blocks []byte, d graph.DType, src []float32) error {
	if err := check(d, len(src), len(blocks)); err != nil {
		return err
	}
	n, size := d.Block()
	for i := 0; i < len(src); i += n {
		b := blocks[i/n*size:][:size]
		clear(b)
		if x := src[i : i+n]; notFinite(x) {
			poison(b, d)
		} else {
			encode(b, d, x)
		}
	}
	return nil
}

func check(d graph.DType, elements, bytes int) error {
	if !slices.Contains(Types(), d) {
		return fmt.Errorf("quant: element type %s, want one of %s", d, quoted.Words(Types()))
	}
	n, size := d.Block()
	if elements%n != 0 {
		return fmt.Errorf("quant: %d elements of %s, want a multiple of %d", elements, d, n)
	}
	if bytes != elements/n*size {
		return fmt.Errorf("quant: %d bytes for %d elements of %s, want %d", bytes, elements, d, elements/n*size)
	}
	return nil
}

// decode, encode and poison switch over all types. They call the functions of a type by
// name, because arguments of calls through a table would escape to the heap.

func decode(y []float32, d graph.DType, b []byte) {
	switch d {
	case graph.Q8_0:
		decodeQ8(y, b)
	case graph.Q4_K:
		decodeQ4K(y, b)
	case graph.Q6_K:
		decodeQ6K(y, b)
	case graph.Q2_K:
		decodeQ2K(y, b)
	case graph.IQ2_XXS:
		decodeIQ2(y, b)
	case graph.MXFP4:
		decodeMX(y, b)
	case graph.Q3_K:
		decodeQ3K(y, b)
	case graph.Q5_K, graph.IQ3_XXS, graph.IQ4_XS:
		decodeGroups(y, d, b)
	default:
		decodeGroup(y, d, b)
	}
}

// encode sets b, which is zeros, to the block for x, which is finite.
func encode(b []byte, d graph.DType, x []float32) {
	switch d {
	case graph.Q8_0:
		encodeQ8(b, x)
	case graph.Q4_K:
		encodeQ4K(b, x)
	case graph.Q6_K:
		encodeQ6K(b, x)
	case graph.Q2_K:
		encodeQ2K(b, x)
	case graph.IQ2_XXS:
		encodeIQ2(b, x)
	case graph.MXFP4:
		encodeMX(b, x)
	case graph.Q4_0:
		encodeQ4(b, x)
	case graph.Q4_1:
		encodeQ41(b, x)
	case graph.Q5_0:
		encodeQ5(b, x)
	case graph.Q5_1:
		encodeQ51(b, x)
	case graph.Q3_K:
		encodeQ3K(b, x)
	case graph.Q5_K:
		encodeQ5K(b, x)
	case graph.IQ3_XXS:
		encodeIQ3(b, x)
	case graph.IQ4_NL:
		encodeIQ4NL(b, x)
	case graph.IQ4_XS:
		encodeIQ4XS(b, x)
	}
}

// poison sets b, which is zeros, to a block with a NaN as its scale.
func poison(b []byte, d graph.DType) {
	switch d {
	case graph.MXFP4:
		poisonMX(b)
	case graph.Q6_K:
		b[q6D+1] = 0x7e
	case graph.Q2_K:
		b[q2D+1] = 0x7e
	case graph.Q3_K:
		b[q3D+1] = 0x7e
	default:
		b[1] = 0x7e
	}
}
